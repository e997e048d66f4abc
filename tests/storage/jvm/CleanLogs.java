import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Cleans logs with JVM Kafka's own Cleaner. Each line of the file that is given is one log:
 *   directory, log start, checkpoint (-1: none), now in ms, bytes of the offset map, bytes of its buffers, then key=value topic settings.
 * Prints for each: first dirty offset, first uncleanable offset, whether the checkpoint was reset, dirty ratio, end offset.
 */
public class CleanLogs {
    static long now;

    /** The system's time, but for the milliseconds of the day, which are the test's. */
    static final Time TIME = (Time) Proxy.newProxyInstance(
        Time.class.getClassLoader(), new Class<?>[] {Time.class},
        (proxy, method, arguments) -> method.getName().equals("milliseconds") ? (Object) now : method.invoke(Time.SYSTEM, arguments));

    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        for (String line : lines) {
            clean(line.split("\t"), scheduler);
        }
        scheduler.shutdown();
        System.exit(0);
    }

    static void clean(String[] fields, KafkaScheduler scheduler) throws Exception {
        File directory = new File(fields[0]);
        long logStart = Long.parseLong(fields[1]);
        long checkpoint = Long.parseLong(fields[2]);
        now = Long.parseLong(fields[3]);
        Map<String, String> settings = new HashMap<>();
        for (int index = 6; index < fields.length; index++) {
            String[] pair = fields[index].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        UnifiedLog log = UnifiedLog.create(directory, new LogConfig(settings), logStart, Long.MAX_VALUE, scheduler, new BrokerTopicStats(),
            TIME, 300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Method cleanable = LogCleanerManager.class.getDeclaredMethod("cleanableOffsets", UnifiedLog.class, Optional.class, long.class);
        cleanable.setAccessible(true);
        Object offsets = cleanable.invoke(null, log, checkpoint < 0 ? Optional.empty() : Optional.of(checkpoint), now);
        LogToClean target = new LogToClean(log, number(offsets, "firstDirtyOffset"), number(offsets, "firstUncleanableDirtyOffset"), false);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(Integer.parseInt(fields[4])), Integer.parseInt(fields[5]), 1 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), TIME, partition -> { });
        long end = target.totalBytes() == 0 ? -1 : cleaner.doClean(target, now).getKey();
        System.out.println(target.firstDirtyOffset() + " " + target.firstUncleanableOffset() + " " + value(offsets, "forceUpdateCheckpoint")
            + " " + target.cleanableRatio() + " " + end);
        log.close();
    }

    static Object value(Object holder, String name) throws Exception {
        Field field = holder.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(holder);
    }

    static long number(Object holder, String name) throws Exception {
        return (Long) value(holder, name);
    }
}
