import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;

/** The rule of tests/policies/samples.py, ConfigRule. */
public class ConfigRule implements AlterConfigPolicy {
    @Override
    public void configure(Map<String, ?> configs) { }

    @Override
    public void validate(RequestMetadata request) {
        String line = request.resource().type() + " " + request.resource().name() + " " + new TreeMap<>(request.configs());
        TopicRule.judge(request.resource().name(), line);
        if ("13".equals(request.configs().get("max.message.bytes")) || "13".equals(request.configs().get("message.max.bytes")))
            throw new PolicyViolationException(line);
    }

    @Override
    public void close() { }
}
