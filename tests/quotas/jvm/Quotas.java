import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import kafka.server.ReplicationQuotaManager;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.SimpleRate;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.config.ReplicationQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Kafka's own quota managers on a clock that stands still until it is set. A line of standard input is an operation, each is answered by a
 * line. Names are those of users and client ids, "*" is the default, "-" neither; numbers with a fraction are answered by their bits.
 */
public class Quotas {
    private static final class StillTime implements Time {
        long now;
        @Override public long milliseconds() { return now; }
        @Override public long nanoseconds() { return TimeUnit.MILLISECONDS.toNanos(now); }
        @Override public void sleep(long ms) { now += ms; }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { throw new UnsupportedOperationException(); }
    }

    private static Optional<ClientQuotaEntity.ConfigEntity> user(String name) {
        if (name.equals("-")) return Optional.empty();
        return Optional.of(name.equals("*") ? ClientQuotaManager.DEFAULT_USER_ENTITY : new ClientQuotaManager.UserEntity(name));
    }

    private static Optional<ClientQuotaEntity.ConfigEntity> client(String name) {
        if (name.equals("-")) return Optional.empty();
        return Optional.of(name.equals("*") ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID : new ClientQuotaManager.ClientIdEntity(name));
    }

    private static Session session(String user) {
        return new Session(new KafkaPrincipal("User", user), InetAddress.getLoopbackAddress());
    }

    private static String bits(double value) {
        return Long.toHexString(Double.doubleToRawLongBits(value));
    }

    public static void main(String[] given) throws Exception {
        StillTime time = new StillTime();
        int samples = Integer.parseInt(given[0]), seconds = Integer.parseInt(given[1]);
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(samples, seconds);
        ClientQuotaManager bytes = new ClientQuotaManager(config, new Metrics(time), QuotaType.FETCH, time, "");
        ControllerMutationQuotaManager mutations = new ControllerMutationQuotaManager(config, new Metrics(time), time, "", Optional.empty());
        ReplicationQuotaManager replicas =
            new ReplicationQuotaManager(new ReplicationQuotaManagerConfig(samples, seconds), new Metrics(time), QuotaType.LEADER_REPLICATION, time);
        MetricConfig metric = new MetricConfig().timeWindow(seconds, TimeUnit.SECONDS).samples(samples);
        Rate rate = new Rate();
        SimpleRate simple = new SimpleRate();
        ControllerMutationQuota mutation = null;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            String answer = "";
            switch (words[0]) {
                case "at" -> time.now = Long.parseLong(words[1]);
                case "quota" -> {
                    Optional<Quota> quota = words[3].equals("-") ? Optional.empty() : Optional.of(Quota.upperBound(Double.parseDouble(words[3])));
                    bytes.updateQuota(user(words[1]), client(words[2]), quota);
                    mutations.updateQuota(user(words[1]), client(words[2]), quota);
                }
                case "record" -> answer += bytes.maybeRecordAndGetThrottleTimeMs(session(words[1]), words[2], Double.parseDouble(words[3]), time.now);
                case "unrecord" -> {
                    if (bytes.quotasEnabled()) bytes.unrecordQuotaSensor(session(words[1]), words[2], Double.parseDouble(words[3]), time.now);
                }
                case "most" -> answer = bits(bytes.maxValueInQuotaWindow(session(words[1]), words[2]));
                case "strict" -> mutation = mutations.newStrictQuotaFor(session(words[1]), words[2]);
                case "permissive" -> mutation = mutations.newPermissiveQuotaFor(session(words[1]), words[2]);
                case "mutate" -> {
                    try {
                        mutation.record(Double.parseDouble(words[1]));
                        answer = "served " + mutation.throttleTime();
                    } catch (ThrottlingQuotaExceededException refused) {
                        answer = "refused " + mutation.throttleTime();
                    }
                }
                case "rate" -> {
                    rate.record(metric, Double.parseDouble(words[1]), time.now);
                    simple.record(metric, Double.parseDouble(words[1]), time.now);
                }
                case "measure" -> answer = bits(rate.measure(metric, time.now)) + " " + rate.windowSize(metric, time.now) + " " + bits(simple.measure(metric, time.now));
                case "limit" -> replicas.updateQuota(Quota.upperBound(Double.parseDouble(words[1])));
                case "move" -> replicas.record(Long.parseLong(words[1]));
                case "exceeded" -> answer += replicas.isQuotaExceeded();
                default -> throw new IllegalArgumentException(line);
            }
            answers.append(answer).append('\n');
        }
        System.out.print(answers);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
