import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Answers with what Kafka's assignors answer. A case is a line: the assignor, then words "topic NAME RACK+RACK;-;..." (the racks of every
 * partition) and "member ID INSTANCE|- RACK|- GENERATION TOPIC,TOPIC|- TOPIC:PARTITION,...|- USERDATA|-" (the last in hex); the answer is
 * a word "ID=TOPIC:PARTITION,..." for every member, in order, and "ID@SUBSCRIPTION@ASSIGNMENT", both as they are sent, in hex. "ID!ERROR"
 * when the assignor fails.
 */
public class ClientAssignors {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            out.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(out);
    }

    private static String answer(String[] words) {
        AbstractPartitionAssignor assignor = switch (words[0]) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
        Map<String, List<PartitionInfo>> topics = new LinkedHashMap<>();
        Map<String, Subscription> members = new LinkedHashMap<>();
        int at = 1;
        while (at < words.length) {
            if (words[at].equals("topic")) {
                List<PartitionInfo> partitions = new ArrayList<>();
                for (String racks : words[at + 2].split(";")) {
                    List<Node> replicas = new ArrayList<>();
                    for (String rack : racks.split("\\+")) replicas.add(new Node(replicas.size(), "host", 9092, rack.equals("-") ? null : rack));
                    Node[] nodes = replicas.toArray(new Node[0]);
                    partitions.add(new PartitionInfo(words[at + 1], partitions.size(), nodes[0], nodes, nodes));
                }
                topics.put(words[at + 1], partitions);
                at += 3;
                continue;
            }
            List<TopicPartition> owned = new ArrayList<>();
            for (String each : list(words[at + 6])) {
                String[] pair = each.split(":");
                owned.add(new TopicPartition(pair[0], Integer.parseInt(pair[1])));
            }
            ByteBuffer data = words[at + 7].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(words[at + 7]));
            Optional<String> rack = words[at + 3].equals("-") ? Optional.empty() : Optional.of(words[at + 3]);
            Subscription said = new Subscription(List.of(list(words[at + 5])), data, owned, Integer.parseInt(words[at + 4]), rack);
            said.setGroupInstanceId(words[at + 2].equals("-") ? Optional.empty() : Optional.of(words[at + 2]));
            members.put(words[at + 1], said);
            at += 8;
        }
        List<String> found = new ArrayList<>();
        List<String> sent = new ArrayList<>();
        Map<String, List<TopicPartition>> assigned;
        try {
            assigned = assignor.assignPartitions(topics, members);
        } catch (RuntimeException error) {
            return "!" + error;
        }
        for (Map.Entry<String, Subscription> member : members.entrySet()) {
            List<TopicPartition> mine = new ArrayList<>(assigned.get(member.getKey()));
            mine.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
            List<String> named = new ArrayList<>();
            for (TopicPartition each : mine) named.add(each.topic() + ":" + each.partition());
            found.add(member.getKey() + "=" + String.join(",", named));
            Subscription said = member.getValue();
            if (said.userData() != null) said.userData().rewind();
            sent.add(member.getKey() + "@" + hex(ConsumerProtocol.serializeSubscription(said)) + "@" + hex(ConsumerProtocol.serializeAssignment(new Assignment(mine))));
        }
        return String.join(" ", found) + " " + String.join(" ", sent);
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String[] list(String word) {
        return word.equals("-") ? new String[0] : word.split(",");
    }
}
