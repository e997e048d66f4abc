import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import sun.misc.Signal;

/**
 * The copier of tests/campaigns/copiers.py with JVM Kafka's clients: transactions of version 2, groups of either protocol.
 *
 * Arguments: bootstrap servers, name (the transactional id), life, group, input, output, seed, history, broker pid file, group protocol,
 * transaction timeout, session timeout (both in ms), batch, share of aborts. SIGTERM ends it, SIGUSR2 kills it at a random point of its next
 * transaction, SIGALRM kills the broker after its next commit was asked for. Exit status 3: the producer can go on no more.
 */
public class Copier {
    private static final String[] PHASES = {"begun", "produced", "flushed", "offsets", "ending"};

    private final String process;
    private final FileOutputStream history;
    private final Random random;
    private final Path brokerPid;
    private volatile boolean stopping;
    private volatile String doom;
    private volatile boolean brokerDoom;

    private Copier(String[] arguments) throws Exception {
        process = arguments[1] + "." + arguments[2];
        random = new Random((arguments[6] + " " + process).hashCode());
        brokerPid = Path.of(arguments[8]);
        history = new FileOutputStream(arguments[7], true);
        Signal.handle(new Signal("TERM"), signal -> stopping = true);
        Signal.handle(new Signal("USR2"), signal -> doom = PHASES[random.nextInt(PHASES.length)]);
        Signal.handle(new Signal("ALRM"), signal -> brokerDoom = true);
        write("info", "subscribe", "", "");
    }

    public static void main(String[] arguments) throws Exception {
        Copier copier = new Copier(arguments);
        try {
            copier.run(arguments);
        } catch (KafkaException error) {
            copier.write("info", "crash", "", ",\"error\":\"" + words(error) + "\"");
            Runtime.getRuntime().halt(3);
        }
        Runtime.getRuntime().halt(0);
    }

    /** One line of the history, in one write. */
    private synchronized void write(String kind, String function, String operations, String extra) throws Exception {
        String time = String.format(Locale.ROOT, "%.6f", System.nanoTime() / 1e9);
        String line = "{\"t\":" + time + ",\"p\":\"" + process + "\",\"k\":\"" + kind + "\",\"f\":\"" + function + "\",\"v\":[" + operations + "]" + extra + "}\n";
        history.write(line.getBytes(StandardCharsets.UTF_8));
    }

    private static String words(Throwable error) {
        String said = String.valueOf(error) + (error.getCause() == null ? "" : " (" + error.getCause() + ")");
        return said.replaceAll("[^ -~]|[\"\\\\]", " ");
    }

    private static void kill(long pid, long milliseconds) {
        Thread killer = new Thread(() -> {
            try {
                Thread.sleep(milliseconds);
                new ProcessBuilder("kill", "-9", Long.toString(pid)).start();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        killer.setDaemon(true);
        killer.start();
    }

    private void reached(String phase) throws Exception {
        if (phase.equals(doom)) {
            kill(ProcessHandle.current().pid(), phase.equals("ending") ? random.nextInt(20) : 0);
            if (!phase.equals("ending")) {
                Thread.sleep(10_000);
            }
        }
        if (brokerDoom && phase.equals("ending")) {
            brokerDoom = false;
            kill(Long.parseLong(Files.readString(brokerPid).strip()), random.nextInt(20));
        }
    }

    private void run(String[] arguments) throws Exception {
        String group = arguments[3];
        String input = arguments[4];
        Map<String, Object> reading = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0], "group.id", group, "group.protocol", arguments[9], "isolation.level", "read_committed",
            "enable.auto.commit", false, "auto.offset.reset", "earliest", "max.poll.records", Integer.parseInt(arguments[12]),
            "reconnect.backoff.ms", 20, "reconnect.backoff.max.ms", 200));
        if (arguments[9].equals("classic")) {
            reading.put("session.timeout.ms", Integer.parseInt(arguments[11]));
            reading.put("heartbeat.interval.ms", Integer.parseInt(arguments[11]) / 6);
        }
        Map<String, Object> writing = Map.of(
            "bootstrap.servers", arguments[0], "transactional.id", arguments[1], "transaction.timeout.ms", Integer.parseInt(arguments[10]),
            "delivery.timeout.ms", Integer.parseInt(arguments[10]), "request.timeout.ms", 5_000, "linger.ms", 2, "max.block.ms", 30_000,
            "reconnect.backoff.ms", 20, "reconnect.backoff.max.ms", 200,
            "compression.type", new String[] {"none", "lz4", "zstd", "gzip"}[Integer.parseInt(arguments[2]) % 4]);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
                KafkaProducer<String, String> producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
            untilDone(producer::initTransactions);
            consumer.subscribe(List.of(input), new Listener(consumer, group));
            int count = 0;
            while (!stopping) {
                List<ConsumerRecord<String, String>> read = new ArrayList<>();
                consumer.poll(Duration.ofMillis(100)).forEach(read::add);
                if (!read.isEmpty() && !copy(consumer, producer, arguments, process + "." + ++count, read)) {
                    rewind(consumer);
                }
            }
        }
    }

    private static void untilDone(Runnable action) {
        while (true) {
            try {
                action.run();
                return;
            } catch (TimeoutException error) {
                // The same call again resumes it.
            }
        }
    }

    private static void rewind(KafkaConsumer<String, String> consumer) {
        while (true) {
            try {
                Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
                committed.forEach((partition, offset) -> consumer.seek(partition, offset == null ? 0 : offset.offset()));
                return;
            } catch (TimeoutException error) {
                // The broker is away, or an open transaction has offsets pending.
            }
        }
    }

    /** One transaction; whether it was committed. */
    private boolean copy(
            KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer, String[] arguments, String name,
            List<ConsumerRecord<String, String>> read) throws Exception {
        boolean voluntary = random.nextDouble() < Double.parseDouble(arguments[13]);
        Map<String, Long> offsets = new ConcurrentHashMap<>();
        String id = ",\"id\":\"" + name + "\"";
        write("invoke", "txn", operations(arguments, name, read, offsets), id);
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        try {
            producer.beginTransaction();
            reached("begun");
            for (ConsumerRecord<String, String> each : read) {
                String value = each.value() + "@" + name;
                producer.send(new ProducerRecord<>(arguments[5], each.partition(), each.value(), value), (written, error) -> {
                    if (error == null) {
                        offsets.put(value, written.offset());
                    }
                });
                ends.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
            }
            reached("produced");
            producer.flush();
            reached("flushed");
            untilDone(() -> producer.sendOffsetsToTransaction(ends, consumer.groupMetadata()));
            reached("offsets");
            reached("ending");
            if (!voluntary) {
                untilDone(producer::commitTransaction);
                write("ok", "txn", operations(arguments, name, read, offsets), id);
                return true;
            }
        } catch (ApplicationRecoverableException error) {
            write("info", "txn", operations(arguments, name, read, offsets), id + ",\"error\":\"" + words(error) + "\"");
            throw error;
        } catch (KafkaException error) {
            abort(producer, arguments, name, read, offsets, words(error));
            return false;
        }
        abort(producer, arguments, name, read, offsets, "of its own will");
        return false;
    }

    private void abort(
            KafkaProducer<String, String> producer, String[] arguments, String name, List<ConsumerRecord<String, String>> read,
            Map<String, Long> offsets, String why) throws Exception {
        String extra = ",\"id\":\"" + name + "\",\"error\":\"" + why;
        try {
            untilDone(producer::abortTransaction);
        } catch (KafkaException error) {
            write("info", "txn", operations(arguments, name, read, offsets), extra + "; " + words(error) + "\"");
            throw error;
        }
        write("fail", "txn", operations(arguments, name, read, offsets), extra + "\"");
    }

    private static String operations(String[] arguments, String name, List<ConsumerRecord<String, String>> read, Map<String, Long> offsets) {
        StringBuilder text = new StringBuilder();
        Map<Integer, Long> ends = new TreeMap<>();
        for (ConsumerRecord<String, String> each : read) {
            text.append("[\"poll\",\"" + arguments[4] + "\"," + each.partition() + "," + each.offset() + ",\"" + each.value() + "\"],");
            ends.put(each.partition(), each.offset() + 1);
        }
        for (ConsumerRecord<String, String> each : read) {
            String value = each.value() + "@" + name;
            text.append("[\"send\",\"" + arguments[5] + "\"," + each.partition() + "," + offsets.get(value) + ",\"" + value + "\"],");
        }
        ends.forEach((partition, end) ->
            text.append("[\"commit\",\"" + arguments[3] + "\",\"" + arguments[4] + "\"," + partition + "," + end + "],"));
        return text.substring(0, text.length() - 1);
    }

    /** Notes who owned what. */
    private final class Listener implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        private final String group;

        private Listener(KafkaConsumer<String, String> consumer, String group) {
            this.consumer = consumer;
            this.group = group;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            note("assign", "assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            note("rebalance", "revoked", partitions);
        }

        private void note(String function, String operation, Collection<TopicPartition> partitions) {
            List<String> said = new ArrayList<>();
            for (TopicPartition each : partitions) {
                int generation = consumer.groupMetadata().generationId();
                said.add("[\"" + operation + "\",\"" + group + "\",\"" + each.topic() + "\"," + each.partition() + "," + generation + "]");
            }
            try {
                write("ok", function, String.join(",", said), "");
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
