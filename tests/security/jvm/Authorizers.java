import java.io.*;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.metadata.authorizer.*;
import org.apache.kafka.server.authorizer.*;

/**
 * Kafka's own StandardAuthorizer. Lines of standard input, their words separated by tabs:
 * new SUPER_USERS DEFAULT; acl TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION (codes where there are any); remove NUMBER;
 * ask KIND NAME HOST OPERATION TYPE RESOURCE, or any KIND NAME HOST OPERATION TYPE: answered "1" or "0";
 * filter TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION ("-" for null): answered with how many match;
 * bench TIMES: asks the last question as often, answered with the nanoseconds that it took each time.
 */
public class Authorizers {
    private record Asker(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 3; }
        public int requestVersion() { return 12; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    private static String orNull(String word) {
        return word.equals("-") ? null : word;
    }

    private static byte code(String word) {
        return Byte.parseByte(word);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = null;
        List<Uuid> ids = new ArrayList<>();
        Map<Uuid, StandardAcl> loading = new LinkedHashMap<>();
        Asker asker = null;
        Action action = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.split("\t", -1);
            if (!loading.isEmpty() && !w[0].equals("acl")) {
                long begin = System.nanoTime();
                if (loading.size() == ids.size()) authorizer.loadSnapshot(loading);
                else for (Map.Entry<Uuid, StandardAcl> each : loading.entrySet()) authorizer.addAcl(each.getKey(), each.getValue());
                if (loading.size() >= 10_000) out.println("loaded " + (System.nanoTime() - begin));
                loading.clear();
            }
            switch (w[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    Map<String, Object> config = new HashMap<>(Map.of("node.id", "0", "allow.everyone.if.no.acl.found", w[2]));
                    config.put("super.users", w[1]);
                    authorizer.configure(config);
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new LinkedHashMap<>()));
                    authorizer.completeInitialLoad();
                    ids.clear();
                }
                case "acl" -> {
                    Uuid id = Uuid.randomUuid();
                    ids.add(id);
                    loading.put(id, new StandardAcl(ResourceType.fromCode(code(w[1])), w[3], PatternType.fromCode(code(w[2])), w[4], w[5],
                        AclOperation.fromCode(code(w[6])), AclPermissionType.fromCode(code(w[7]))));
                }
                case "remove" -> authorizer.removeAcl(ids.get(Integer.parseInt(w[1])));
                case "ask", "any" -> {
                    asker = new Asker(new KafkaPrincipal(w[1], w[2]), InetAddress.getByName(w[3]));
                    AclOperation operation = AclOperation.fromCode(code(w[4]));
                    ResourceType type = ResourceType.fromCode(code(w[5]));
                    AuthorizationResult result;
                    if (w[0].equals("any")) result = authorizer.authorizeByResourceType(asker, operation, type);
                    else {
                        action = new Action(operation, new ResourcePattern(type, w[6], PatternType.LITERAL), 1, false, false);
                        result = authorizer.authorize(asker, List.of(action)).get(0);
                    }
                    out.println(result == AuthorizationResult.ALLOWED ? "1" : "0");
                }
                case "filter" -> {
                    int count = 0;
                    for (AclBinding ignored : authorizer.acls(new AclBindingFilter(
                        new ResourcePatternFilter(ResourceType.fromCode(code(w[1])), orNull(w[3]), PatternType.fromCode(code(w[2]))),
                        new AccessControlEntryFilter(orNull(w[4]), orNull(w[5]), AclOperation.fromCode(code(w[6])), AclPermissionType.fromCode(code(w[7]))))))
                        count++;
                    out.println(count);
                }
                case "bench" -> {
                    int times = Integer.parseInt(w[1]);
                    for (int warm = 0; warm < times; warm++) authorizer.authorize(asker, List.of(action));
                    long begin = System.nanoTime();
                    for (int each = 0; each < times; each++) authorizer.authorize(asker, List.of(action));
                    out.println((System.nanoTime() - begin) / (double) times);
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }
}
