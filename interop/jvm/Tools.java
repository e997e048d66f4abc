import java.io.*;
import java.lang.reflect.InvocationTargetException;
import java.util.*;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Utils;

/**
 * Runs main methods of JVM Kafka's tools, several at a time, in one process. A line of standard input is "NUMBER CLASS STDIN ARGUMENT...",
 * the last two in base64 with a dot before; the answer is a line "NUMBER STATUS STDOUT STDERR". Streams are those of the thread that
 * runs the tool and of the threads it starts. A tool that exits has ended with what it had printed by then and what its shutdown hooks print.
 */
public class Tools {
    private static final InheritableThreadLocal<Run> CURRENT = new InheritableThreadLocal<>();

    private static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    private static final class Run {
        final String number;
        final ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        final InputStream in;
        final List<Runnable> hooks = Collections.synchronizedList(new ArrayList<>());
        boolean ended;

        Run(String number, byte[] in) {
            this.number = number;
            this.in = new ByteArrayInputStream(in);
        }

        synchronized void end(int status) {
            if (ended) return;
            ended = true;
            for (Runnable hook : hooks) hook.run();
            Base64.Encoder encoder = Base64.getEncoder();
            String line = number + " " + status + " ." + encoder.encodeToString(out.toByteArray()) + " ." + encoder.encodeToString(err.toByteArray());
            synchronized (ANSWERS) {
                ANSWERS.println(line);
                ANSWERS.flush();
            }
        }
    }

    private static final PrintStream ANSWERS = System.out;
    private static final PrintStream OWN_ERR = System.err;

    /** The tools' own classes anew for each call, as some count in static fields; all else is shared. */
    private static final class Fresh extends ClassLoader {
        Fresh() {
            super(Tools.class.getClassLoader());
        }

        @Override protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("org.apache.kafka.tools.")) return super.loadClass(name, resolve);
            synchronized (getClassLoadingLock(name)) {
                Class<?> known = findLoadedClass(name);
                if (known != null) return known;
                try (InputStream in = getResourceAsStream(name.replace('.', '/') + ".class")) {
                    if (in == null) throw new ClassNotFoundException(name);
                    byte[] code = in.readAllBytes();
                    return defineClass(name, code, 0, code.length);
                } catch (IOException failure) {
                    throw new ClassNotFoundException(name, failure);
                }
            }
        }
    }

    private static PrintStream split(java.util.function.Function<Run, OutputStream> side) {
        return new PrintStream(new OutputStream() {
            @Override public void write(int each) throws IOException {
                write(new byte[] {(byte) each}, 0, 1);
            }
            @Override public void write(byte[] data, int from, int count) throws IOException {
                Run run = CURRENT.get();
                (run == null ? OWN_ERR : side.apply(run)).write(data, from, count);
            }
        }, true);
    }

    /**
     * Close the admin clients of a tool that has ended without closing them, as tools do that count on the end of their process: their threads
     * would go on to connect to brokers that are gone. Needs --add-opens java.base/java.lang=ALL-UNNAMED.
     */
    private static void closeClients(ThreadGroup tool) {
        Thread[] left = new Thread[tool.activeCount() + 8];
        int count = tool.enumerate(left);
        for (int i = 0; i < count; i++) {
            if (!left[i].getName().startsWith("kafka-admin-client-thread")) continue;
            try {
                Object task = field(left[i], Thread.class, Runtime.version().feature() < 19 ? "target" : "holder");
                if (Runtime.version().feature() >= 19) task = field(task, task.getClass(), "task");
                ((Admin) field(task, task.getClass(), "this$0")).close(java.time.Duration.ZERO);
            } catch (ReflectiveOperationException failure) {
                throw new IllegalStateException("the admin client of " + left[i] + " was not found", failure);
            }
        }
    }

    private static Object field(Object object, Class<?> type, String name) throws ReflectiveOperationException {
        var found = type.getDeclaredField(name);
        found.setAccessible(true);
        return found.get(object);
    }

    private static void run(Run run, String name, String[] arguments) {
        CURRENT.set(run);
        int status = 0;
        try {
            ClassLoader fresh = new Fresh();
            Thread.currentThread().setContextClassLoader(fresh);
            Class.forName(name, true, fresh).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            status = 1;
            if (!(failure.getCause() instanceof Exited)) failure.getCause().printStackTrace();
        } catch (Throwable failure) {
            status = 1;
            failure.printStackTrace();
        }
        try {
            closeClients(Thread.currentThread().getThreadGroup());
        } catch (Throwable failure) {
            status = 1;
            failure.printStackTrace();
        }
        run.end(status);
    }

    public static void main(String[] ignored) throws Exception {
        System.setOut(split(run -> run.out));
        System.setErr(split(run -> run.err));
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        System.setIn(new InputStream() {
            @Override public int read() throws IOException {
                return CURRENT.get().in.read();
            }
            @Override public int read(byte[] data, int from, int count) throws IOException {
                return CURRENT.get().in.read(data, from, count);
            }
        });
        Exit.Procedure exit = (status, message) -> {
            Run run = CURRENT.get();
            if (run != null) run.end(status);
            throw new Exited();
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> CURRENT.get().hooks.add(hook));
        for (String line; (line = questions.readLine()) != null; ) {
            String[] words = line.split(" ");
            byte[][] decoded = new byte[words.length][];
            for (int i = 2; i < words.length; i++) decoded[i] = Base64.getDecoder().decode(words[i].substring(1));
            String[] arguments = new String[words.length - 3];
            for (int i = 0; i < arguments.length; i++) arguments[i] = new String(decoded[i + 3], "UTF-8");
            Thread thread = new Thread(new ThreadGroup("tool"), () -> run(new Run(words[0], decoded[2]), words[1], arguments), "tool");
            thread.setDaemon(true);
            thread.start();
        }
        Runtime.getRuntime().halt(0);
    }
}

/** A tool of ours: asks the admin client to move a replica, and waits for it. Bootstrap servers, topic, partition, broker id, directory. */
class MoveReplica {
    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        TopicPartitionReplica replica = new TopicPartitionReplica(given[1], Integer.parseInt(given[2]), Integer.parseInt(given[3]));
        try (Admin admin = Admin.create(settings)) {
            admin.alterReplicaLogDirs(Map.of(replica, given[4])).all().get();
            while (true) {
                var found = admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
                if (given[4].equals(found.getCurrentReplicaLogDir()) && found.getFutureReplicaLogDir() == null) {
                    System.out.println("moved to " + found.getCurrentReplicaLogDir() + " lag " + found.getCurrentReplicaOffsetLag());
                    return;
                }
                Thread.sleep(50);
            }
        }
    }
}

/**
 * A tool of ours: what Java's clients make of things. Lines of standard input, and what is answered to each:
 * "hash KEY COUNT": murmur2, and the partition of so many. "odds LENGTHS COUNT": the cumulative frequencies of partitions with such queues
 * out of so many in all, or "none". "moves BATCH APPENDS": after which appends the partition changes; one is its bytes, with a + where the
 * batch is full then. "write TYPE TEXT" and "read TYPE BYTES": bytes and text of a standard serializer and deserializer, the
 * text of numbers with a fraction being their bits; "refused" for what it does not take. Bytes are hexadecimal, strings UTF-8 of that kind.
 */
class ClientChoices {
    private static final String SERIALIZATION = "org.apache.kafka.common.serialization.";
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            System.out.println(switch (words[0]) {
                case "hash" -> {
                    byte[] key = HEX.parseHex(words[1]);
                    yield Utils.murmur2(key) + " " + BuiltInPartitioner.partitionForKey(key, Integer.parseInt(words[2]));
                }
                case "odds" -> odds(words[1].split(","), Integer.parseInt(words[2]));
                case "moves" -> moves(Integer.parseInt(words[1]), words[2].split(","));
                case "write" -> HEX.formatHex(serializer(words[1]).serialize("t", value(words[1], words[2])));
                default -> read(words[1], HEX.parseHex(words[2]));
            });
        }
    }

    private static String odds(String[] lengths, int count) throws Exception {
        int[] queues = new int[count], partitions = new int[count];
        for (int i = 0; i < lengths.length; i++) queues[i] = Integer.parseInt(lengths[i]);
        BuiltInPartitioner partitioner = new BuiltInPartitioner(new LogContext(), "t", 1);
        partitioner.updatePartitionLoadStats(queues, partitions, lengths.length);
        var stats = BuiltInPartitioner.class.getDeclaredField("partitionLoadStats");
        stats.setAccessible(true);
        if (stats.get(partitioner) == null) return "none";
        StringJoiner sums = new StringJoiner(",");
        for (int i = 0; i < lengths.length; i++) sums.add(String.valueOf(queues[i]));
        return sums.toString();
    }

    private static String moves(int batch, String[] appends) throws Exception {
        Node node = new Node(1, "host", 1);
        PartitionInfo partition = new PartitionInfo("t", 0, node, new Node[] {node}, new Node[] {node});
        Cluster cluster = new Cluster("c", List.of(node), List.of(partition), Set.of(), Set.of());
        BuiltInPartitioner partitioner = new BuiltInPartitioner(new LogContext(), "t", batch);
        var peek = BuiltInPartitioner.class.getDeclaredMethod("peekCurrentPartitionInfo", Cluster.class);
        peek.setAccessible(true);
        var update = BuiltInPartitioner.class.getDeclaredMethod(
            "updatePartitionInfo", peek.getReturnType(), int.class, Cluster.class, boolean.class);
        update.setAccessible(true);
        StringBuilder moved = new StringBuilder();
        for (String append : appends) {
            Object before = peek.invoke(partitioner, cluster);
            boolean full = append.endsWith("+");
            update.invoke(partitioner, before, Integer.parseInt(full ? append.substring(0, append.length() - 1) : append), cluster, full);
            moved.append(peek.invoke(partitioner, cluster) == before ? "0" : "1");
        }
        return moved.toString();
    }

    @SuppressWarnings("unchecked")
    private static Serializer<Object> serializer(String type) throws Exception {
        return (Serializer<Object>) Class.forName(SERIALIZATION + type + "Serializer").getDeclaredConstructor().newInstance();
    }

    private static Object value(String type, String text) throws Exception {
        return switch (type) {
            case "Short" -> Short.valueOf(text);
            case "Integer" -> Integer.valueOf(text);
            case "Long" -> Long.valueOf(text);
            case "Float" -> Float.intBitsToFloat(Integer.parseUnsignedInt(text, 16));
            case "Double" -> Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
            case "Boolean" -> Boolean.valueOf(text);
            case "UUID" -> UUID.fromString(text);
            case "String" -> new String(HEX.parseHex(text), "UTF-8");
            case "Bytes" -> new Bytes(HEX.parseHex(text));
            case "ByteBuffer" -> java.nio.ByteBuffer.wrap(HEX.parseHex(text));
            default -> HEX.parseHex(text);
        };
    }

    private static String read(String type, byte[] data) throws Exception {
        Deserializer<?> deserializer = (Deserializer<?>) Class.forName(SERIALIZATION + type + "Deserializer").getDeclaredConstructor().newInstance();
        Object value;
        try {
            value = deserializer.deserialize("t", data);
        } catch (RuntimeException refused) {
            return "refused";
        }
        if (value instanceof Float number) return String.format("%08x", Float.floatToRawIntBits(number));
        if (value instanceof Double number) return String.format("%016x", Double.doubleToRawLongBits(number));
        if (value instanceof String text) return HEX.formatHex(text.getBytes("UTF-8"));
        return String.valueOf(value);
    }
}
