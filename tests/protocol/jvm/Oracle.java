import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Kafka's own serialization behind a pipe. A question is: command byte, length and class name (UTF-8), int16 version, length and
 * bytes; the answer: status byte (0 good, 1 refused), length and bytes. Commands:
 * R reads the bytes as the message, must consume all, and answers with the message written again;
 * D answers with a message of defaults, written; I answers with the class's "lowest highest key";
 * A answers with what ApiMessageType knows of the key given as version; M reads and writes a framed metadata record.
 * The argument, if any, is a jar of Kafka 3.9 for the messages that 4.x no longer has: command Z is R with that jar.
 */
public class Oracle {
    private static final Map<String, Class<?>> CLASSES = new HashMap<>();
    private static ClassLoader old;

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            URL[] jars = {Path.of(arguments[0]).toUri().toURL()};
            old = new URLClassLoader(jars, new ClassLoader(Oracle.class.getClassLoader()) {
                @Override
                protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
                    if (name.startsWith("org.apache.kafka.")) {
                        throw new ClassNotFoundException(name);
                    }
                    return super.loadClass(name, resolve);
                }
            });
        }
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            byte command;
            try {
                command = in.readByte();
            } catch (EOFException end) {
                return;
            }
            String name = new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
            short version = in.readShort();
            byte[] payload = in.readNBytes(in.readInt());
            byte[] answer;
            int status = 0;
            try {
                answer = answer(command, name, version, payload);
            } catch (Throwable refusal) {
                Throwable cause = refusal.getCause() == null ? refusal : refusal.getCause();
                answer = cause.toString().getBytes(StandardCharsets.UTF_8);
                status = 1;
            }
            out.writeByte(status);
            out.writeInt(answer.length);
            out.write(answer);
            out.flush();
        }
    }

    private static byte[] answer(byte command, String name, short version, byte[] payload) throws Exception {
        switch (command) {
            case 'R':
                Message message = newMessage(name);
                ByteBufferAccessor reader = new ByteBufferAccessor(ByteBuffer.wrap(payload));
                message.read(reader, version);
                mustBeConsumed(reader.remaining());
                return bytes(MessageUtil.toByteBufferAccessor(message, version).buffer());
            case 'D':
                return bytes(MessageUtil.toByteBufferAccessor(newMessage(name), version).buffer());
            case 'I':
                Message plain = newMessage(name);
                return text(plain.lowestSupportedVersion() + " " + plain.highestSupportedVersion());
            case 'A':
                return text(api(version));
            case 'M':
                ByteBufferAccessor framed = new ByteBufferAccessor(ByteBuffer.wrap(payload));
                ApiMessageAndVersion record = MetadataRecordSerde.INSTANCE.read(framed, payload.length);
                var cache = new org.apache.kafka.common.protocol.ObjectSerializationCache();
                ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
                MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
                return buffer.array();
            case 'Z':
                return oldRoundTrip(name, version, payload);
            default:
                throw new IllegalArgumentException("command " + command);
        }
    }

    private static Message newMessage(String name) throws Exception {
        Class<?> found = CLASSES.get(name);
        if (found == null) {
            found = Class.forName(name);
            CLASSES.put(name, found);
        }
        return (Message) found.getDeclaredConstructor().newInstance();
    }

    private static String api(short key) {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        StringBuilder line = new StringBuilder();
        line.append(type.name).append(' ').append(type.lowestSupportedVersion()).append(' ').append(type.highestSupportedVersion(true));
        line.append(' ').append(type.highestSupportedVersion(false));
        String[] listeners = type.listeners().stream().map(Object::toString).sorted().toArray(String[]::new);
        line.append(' ').append(String.join(",", listeners)).append(' ');
        for (short v = type.lowestSupportedVersion(); v <= type.highestSupportedVersion(true); v++) {
            line.append(type.requestHeaderVersion(v)).append(type.responseHeaderVersion(v));
        }
        return line.toString();
    }

    /** The same as R by reflection alone: the classes of the other jar share no type with ours. */
    private static byte[] oldRoundTrip(String name, short version, byte[] payload) throws Exception {
        Class<?> accessor = old.loadClass(ByteBufferAccessor.class.getName());
        Class<?> readable = old.loadClass("org.apache.kafka.common.protocol.Readable");
        Class<?> messageType = old.loadClass(Message.class.getName());
        Object reader = accessor.getConstructor(ByteBuffer.class).newInstance(ByteBuffer.wrap(payload));
        Object message = old.loadClass(name).getConstructor(readable, short.class).newInstance(reader, version);
        mustBeConsumed((int) accessor.getMethod("remaining").invoke(reader));
        return bytes((ByteBuffer) old.loadClass(MessageUtil.class.getName())
            .getMethod("toByteBuffer", messageType, short.class).invoke(null, message, version));
    }

    private static void mustBeConsumed(int remaining) {
        if (remaining != 0) {
            throw new IllegalStateException(remaining + " bytes left over");
        }
    }

    private static byte[] bytes(ByteBuffer buffer) {
        return Arrays.copyOfRange(buffer.array(), buffer.arrayOffset() + buffer.position(), buffer.arrayOffset() + buffer.limit());
    }

    private static byte[] text(String value) {
        return value.getBytes(StandardCharsets.UTF_8);
    }
}
