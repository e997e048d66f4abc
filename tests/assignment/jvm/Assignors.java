import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * Answers with what Kafka's assignors answer. A case is a line: the assignor, the subscription type, then words "topic N COUNT" and
 * "member ID INSTANCE|- TOPIC,TOPIC|- TOPIC:PARTITION,...|-"; the answer is a line of MEMBER=TOPIC:PARTITION,... in order.
 */
public class Assignors {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            out.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(out);
    }

    private static String answer(String[] words) {
        Map<Uuid, Integer> counts = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        int at = 2;
        while (at < words.length) {
            if (words[at].equals("topic")) {
                counts.put(topic(words[at + 1]), Integer.parseInt(words[at + 2]));
                at += 3;
                continue;
            }
            String id = words[at + 1];
            Optional<String> instance = words[at + 2].equals("-") ? Optional.empty() : Optional.of(words[at + 2]);
            Set<Uuid> topics = new LinkedHashSet<>();
            for (String each : list(words[at + 3])) topics.add(topic(each));
            Map<Uuid, Set<Integer>> owned = new LinkedHashMap<>();
            for (String each : list(words[at + 4])) {
                String[] pair = each.split(":");
                owned.computeIfAbsent(topic(pair[0]), key -> new TreeSet<>()).add(Integer.parseInt(pair[1]));
                owners.computeIfAbsent(topic(pair[0]), key -> new HashMap<>()).put(Integer.parseInt(pair[1]), id);
            }
            members.put(id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, topics, new Assignment(owned)));
            at += 5;
        }
        PartitionAssignor assignor = words[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupSpec spec = new GroupSpecImpl(members, SubscriptionType.valueOf(words[1]), owners);
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
        GroupAssignment assigned = assignor.assign(spec, describer);
        List<String> found = new ArrayList<>();
        for (String id : members.keySet()) {
            List<String> mine = new ArrayList<>();
            MemberAssignment assignment = assigned.members().get(id);
            TreeMap<Long, Set<Integer>> sorted = new TreeMap<>();
            if (assignment != null) assignment.partitions().forEach((key, value) -> sorted.put(key.getLeastSignificantBits(), value));
            sorted.forEach((key, value) -> {
                for (int partition : new TreeSet<>(value)) mine.add(key + ":" + partition);
            });
            found.add(id + "=" + String.join(",", mine));
        }
        return String.join(" ", found);
    }

    private static Uuid topic(String number) {
        return new Uuid(0, Long.parseLong(number));
    }

    private static String[] list(String word) {
        return word.equals("-") ? new String[0] : word.split(",");
    }
}
