import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

/** Writes a segment of messages of magic 0 and 1 and batches of magic 2, three records each, with the JVM's own builder. */
public class OldMessages {
    public static void main(String[] arguments) throws Exception {
        long offset = 0;
        long timestamp = Long.parseLong(arguments[1]);
        try (FileOutputStream file = new FileOutputStream(arguments[0])) {
            for (byte magic = 0; magic <= 2; magic++) {
                for (Compression compression : new Compression[] {Compression.NONE, Compression.gzip().build(), Compression.snappy().build(),
                        Compression.lz4().build()}) {
                    ByteBuffer buffer = ByteBuffer.allocate(4096);
                    MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, magic, compression, TimestampType.CREATE_TIME, offset);
                    for (int index = 0; index < 3; index++) {
                        byte[] value = ("value " + (offset + index)).getBytes(StandardCharsets.UTF_8);
                        builder.append(magic == 0 ? RecordBatch.NO_TIMESTAMP : timestamp + offset + index, ("k" + index).getBytes(), value);
                    }
                    ByteBuffer written = builder.build().buffer();
                    byte[] bytes = new byte[written.remaining()];
                    written.get(bytes);
                    file.write(bytes);
                    offset += 3;
                }
            }
        }
    }
}
