import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartitionReplica;

/** Asks JVM Kafka's admin client to move a replica: bootstrap servers, topic, partition, broker id, target directory. */
public class MoveReplica {
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
