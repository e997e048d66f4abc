import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter.BatchRetention;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.OffsetMap;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;

/**
 * The JVM's record codec behind standard input and output, one line a question, one line an answer:
 *   C codec level hex                                            -> how many bytes the codec makes of them at the level
 *   D hex                                                        -> records of all batches
 *   E magic codec baseOffset records                             -> hex of a batch
 *   V targetCodec compacted logAppendTime before after now hex   -> what LogValidator makes of a client's batch
 *   F latest map discard retainEmpty emptyTransaction retainLegacyDeletes now retention hex
 *                                                                -> what MemoryRecords.filterTo makes of a batch, with Cleaner's rules
 * map: key=offset,... with keys in hex, "-" for none.
 * records: timestamp,key,value[,name=value...] separated by ";", bytes in hex, "-" for null.
 */
public class RecordsOracle {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        String line;
        while ((line = in.readLine()) != null) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                answer = switch (words[0]) {
                    case "C" -> "ok " + compressedSize(words);
                    case "D" -> "ok " + decode(HEX.parseHex(words[1]));
                    case "E" -> "ok " + encode(words);
                    case "F" -> "ok " + filter(words);
                    default -> "ok " + validate(words);
                };
            } catch (RecordValidationException e) {
                StringBuilder text = new StringBuilder("error ").append(e.invalidException().getClass().getSimpleName());
                for (ProduceResponse.RecordError error : e.recordErrors())
                    text.append(' ').append(error.batchIndex);
                answer = text.toString();
            } catch (Throwable e) {
                answer = "error " + e.getClass().getSimpleName();
            }
            out.println(answer);
            out.flush();
        }
    }

    private static int compressedSize(String[] words) throws Exception {
        int level = Integer.parseInt(words[2]);
        Compression compression = switch (words[1]) {
            case "gzip" -> Compression.gzip().level(level).build();
            case "lz4" -> Compression.lz4().level(level).build();
            case "snappy" -> Compression.snappy().build();
            default -> Compression.zstd().level(level).build();
        };
        ByteBufferOutputStream output = new ByteBufferOutputStream(1024);
        try (OutputStream stream = compression.wrapForOutput(output, RecordBatch.MAGIC_VALUE_V2)) {
            stream.write(HEX.parseHex(words[3]));
        }
        return output.position();
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : HEX.parseHex(text);
    }

    private static String text(ByteBuffer buffer) {
        if (buffer == null)
            return "-";
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return HEX.formatHex(copy);
    }

    private static String decode(byte[] raw) {
        StringBuilder text = new StringBuilder();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(raw)).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                text.append(text.length() == 0 ? "" : ";").append(record.offset()).append(',').append(record.timestamp())
                    .append(',').append(text(record.key())).append(',').append(text(record.value()));
                for (Header header : record.headers())
                    text.append(',').append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8))).append('=')
                        .append(header.value() == null ? "-" : HEX.formatHex(header.value()));
            }
        }
        return text.toString();
    }

    private static String encode(String[] words) {
        byte magic = Byte.parseByte(words[1]);
        Compression compression = Compression.of(CompressionType.forName(words[2])).build();
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), magic, compression,
            TimestampType.CREATE_TIME, Long.parseLong(words[3]));
        for (String record : words[4].split(";")) {
            String[] fields = record.split(",", -1);
            Header[] headers = new Header[fields.length - 3];
            for (int i = 3; i < fields.length; i++) {
                String[] pair = fields[i].split("=", -1);
                headers[i - 3] = new RecordHeader(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1]));
            }
            builder.append(Long.parseLong(fields[0]), bytes(fields[1]), bytes(fields[2]), headers);
        }
        return text(builder.build().buffer());
    }

    private static String filter(String[] words) throws Exception {
        SkimpyOffsetMap map = new SkimpyOffsetMap(24 * 1000);
        if (!words[2].equals("-"))
            for (String pair : words[2].split(",")) {
                String[] entry = pair.split("=", -1);
                map.put(ByteBuffer.wrap(HEX.parseHex(entry[0])), Long.parseLong(entry[1]));
            }
        map.updateLatestOffset(Long.parseLong(words[1]));
        boolean discard = Boolean.parseBoolean(words[3]);
        boolean retainEmpty = Boolean.parseBoolean(words[4]);
        boolean emptyTransaction = Boolean.parseBoolean(words[5]);
        boolean retainLegacyDeletes = Boolean.parseBoolean(words[6]);
        Cleaner cleaner = new Cleaner(0, map, 1024, 1024, 0.9, null, Time.SYSTEM, partition -> { });
        Method rule = Cleaner.class.getDeclaredMethod("shouldRetainRecord", OffsetMap.class, boolean.class, RecordBatch.class,
            Record.class, CleanerStats.class, long.class);
        rule.setAccessible(true);
        CleanerStats stats = new CleanerStats(Time.SYSTEM);
        // What Cleaner.cleanInto gives filterTo, with its decisions about the whole batch made by the question.
        RecordFilter filter = new RecordFilter(Long.parseLong(words[7]), Long.parseLong(words[8])) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                BatchRetention retention = retainEmpty ? BatchRetention.RETAIN_EMPTY
                    : discard ? BatchRetention.DELETE : BatchRetention.DELETE_EMPTY;
                return new BatchRetentionResult(retention, emptyTransaction);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                if (discard)
                    return false;
                if (batch.isControlBatch())
                    return true;
                try {
                    return (boolean) rule.invoke(cleaner, map, retainLegacyDeletes, batch, record, stats, currentTime);
                } catch (ReflectiveOperationException e) {
                    throw new IllegalStateException(e.getCause());
                }
            }
        };
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(words[9])));
        MemoryRecords.FilterResult result = records.filterTo(filter, ByteBuffer.allocate(1 << 20), BufferSupplier.NO_CACHING);
        ByteBuffer output = result.outputBuffer();
        output.flip();
        return result.messagesRead() + " " + result.messagesRetained() + " " + result.maxTimestamp() + " "
            + result.shallowOffsetOfMaxTimestamp() + " " + text(output);
    }

    private static String validate(String[] words) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(words[7])));
        MutableRecordBatch batch = records.batches().iterator().next();
        if (batch.baseOffset() != 0)
            throw new org.apache.kafka.common.InvalidRecordException("base offset");
        batch.ensureValid();
        long now = Long.parseLong(words[6]);
        Time time = (Time) java.lang.reflect.Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> method.getName().equals("milliseconds") ? (Object) now : method.invoke(Time.SYSTEM, arguments));
        CompressionType source = batch.compressionType();
        Compression target = Compression.of(words[1].equals("producer") ? source : CompressionType.forName(words[1])).build();
        LogValidator validator = new LogValidator(records, new TopicPartition("t", 0), time, source, target,
            Boolean.parseBoolean(words[2]), RecordBatch.MAGIC_VALUE_V2,
            Boolean.parseBoolean(words[3]) ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            Long.parseLong(words[4]), Long.parseLong(words[5]), 7, AppendOrigin.CLIENT);
        LogValidator.MetricsRecorder silent = (LogValidator.MetricsRecorder) java.lang.reflect.Proxy.newProxyInstance(
            LogValidator.class.getClassLoader(), new Class<?>[] {LogValidator.MetricsRecorder.class}, (proxy, method, arguments) -> null);
        LogValidator.ValidationResult result =
            validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(1000), silent, BufferSupplier.NO_CACHING);
        return result.maxTimestampMs() + " " + text(result.validatedRecords().buffer());
    }
}
