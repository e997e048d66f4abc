import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** The rule of tests/policies/samples.py, TopicRule. */
public class TopicRule implements CreateTopicPolicy {
    private Object word;

    @Override
    public void configure(Map<String, ?> configs) {
        word = configs.get("create.topic.policy.word");
    }

    @Override
    public void validate(RequestMetadata request) {
        Object assignments = request.replicasAssignments() == null ? null : new TreeMap<>(request.replicasAssignments());
        judge(request.topic(), request.topic() + " " + request.numPartitions() + " " + request.replicationFactor() + " " + assignments + " "
            + new TreeMap<>(request.configs()) + " " + word);
    }

    static void judge(String name, String line) {
        if (name.contains("violation")) throw new PolicyViolationException(line);
        if (name.contains("silent")) throw new PolicyViolationException("");
        if (name.contains("failure")) throw new RuntimeException("the secret of the operator");
        if (name.contains("other")) throw new InvalidRequestException(line);
    }

    @Override
    public void close() { }
}
