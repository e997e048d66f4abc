import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter.BatchRetention;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;

/**
 * The JVM cleaner's loops over the bytes of log files in memory: runs, then files. Prints nanoseconds of the fastest run for each file:
 * checking headers and CRCs (ensureValid), filling the offset map, filterTo.
 */
public class RecordsBench {
    private static final int CHUNK = 2 << 20;

    public static void main(String[] args) throws Exception {
        for (int i = 1; i < args.length; i++) {
            byte[] log = Files.readAllBytes(Path.of(args[i]));
            long[] best = {Long.MAX_VALUE, Long.MAX_VALUE, Long.MAX_VALUE};
            for (int run = 0; run < Integer.parseInt(args[0]); run++) {
                BufferSupplier buffers = BufferSupplier.create();
                SkimpyOffsetMap map = new SkimpyOffsetMap(128 << 20);
                long start = System.nanoTime();
                scan(log);
                best[0] = Math.min(best[0], System.nanoTime() - start);
                start = System.nanoTime();
                index(log, map, buffers);
                best[1] = Math.min(best[1], System.nanoTime() - start);
                start = System.nanoTime();
                filter(log, map, buffers);
                best[2] = Math.min(best[2], System.nanoTime() - start);
            }
            System.out.println(best[0] + " " + best[1] + " " + best[2]);
        }
    }

    private static MemoryRecords chunk(byte[] log, int position) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(log, position, Math.min(CHUNK, log.length - position)).slice());
    }

    private static void scan(byte[] log) {
        for (int position = 0; position < log.length; ) {
            MemoryRecords records = chunk(log, position);
            for (RecordBatch batch : records.batches())
                batch.ensureValid();
            position += records.validBytes();
        }
    }

    private static void index(byte[] log, SkimpyOffsetMap map, BufferSupplier buffers) throws Exception {
        for (int position = 0; position < log.length; ) {
            MemoryRecords records = chunk(log, position);
            for (RecordBatch batch : records.batches()) {
                try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                    while (iterator.hasNext()) {
                        Record record = iterator.next();
                        if (record.hasKey())
                            map.put(record.key(), record.offset());
                    }
                }
                map.updateLatestOffset(batch.lastOffset());
            }
            position += records.validBytes();
        }
    }

    private static void filter(byte[] log, SkimpyOffsetMap map, BufferSupplier buffers) {
        RecordFilter filter = new RecordFilter(0, 1) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.DELETE_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                try {
                    return record.offset() > map.latestOffset()
                        || record.hasKey() && record.offset() >= map.get(record.key()) && (record.hasValue() || batch.deleteHorizonMs().isEmpty());
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        };
        ByteBuffer output = ByteBuffer.allocate(CHUNK);
        for (int position = 0; position < log.length; ) {
            output.clear();
            MemoryRecords.FilterResult result = chunk(log, position).filterTo(filter, output, buffers);
            position += result.bytesRead();
        }
    }
}
