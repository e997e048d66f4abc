import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes to every partition of the topics with idempotent and transactional producers, each with a codec of its own, in many small batches.
 * Arguments: bootstrap servers, seed, steps, partitions of each topic, topics. Ends without closing anything: transactions stay open.
 */
public class Workload {
    private static final String[] CODECS = {"none", "gzip", "lz4", "snappy", "zstd"};

    public static void main(String[] arguments) {
        Random random = new Random(Long.parseLong(arguments[1]));
        int steps = Integer.parseInt(arguments[2]);
        int partitions = Integer.parseInt(arguments[3]);
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (int index = 0; index < 5; index++) {
            Map<String, Object> configs = new java.util.HashMap<>(Map.of(
                "bootstrap.servers", arguments[0], "acks", "all", "enable.idempotence", true, "linger.ms", 0, "compression.type", CODECS[index]));
            if (index >= 2) {
                configs.put("transactional.id", "writer-" + index);
                configs.put("transaction.timeout.ms", 600_000);
            }
            producers.add(new KafkaProducer<>(configs, new ByteArraySerializer(), new ByteArraySerializer()));
            if (index >= 2) {
                producers.get(index).initTransactions();
            }
        }
        boolean[] open = new boolean[producers.size()];
        for (int step = 0; step < steps; step++) {
            int index = random.nextInt(producers.size());
            KafkaProducer<byte[], byte[]> producer = producers.get(index);
            if (index >= 2 && open[index] && random.nextInt(4) == 0) {
                if (random.nextBoolean()) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                open[index] = false;
                continue;
            }
            if (index >= 2 && !open[index]) {
                producer.beginTransaction();
                open[index] = true;
            }
            for (int spread = random.nextInt(4); spread >= 0; spread--) {
                String topic = arguments[4 + random.nextInt(arguments.length - 4)];
                int partition = random.nextInt(partitions);
                for (int count = 1 + random.nextInt(5); count > 0; count--) {
                    byte[] value = new byte[random.nextInt(60)];
                    random.nextBytes(value);
                    producer.send(new ProducerRecord<>(topic, partition, ("k" + random.nextInt(9)).getBytes(), value));
                }
            }
            producer.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
