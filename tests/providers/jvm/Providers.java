import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Kafka's own configuration providers. Lines of standard input, their words in base64 and separated by spaces:
 * `set KEY VALUE` adds a setting; `allow CLASSES` is org.apache.kafka.automatic.config.providers from now on, `allow` takes it away;
 * `client` and `broker` resolve the settings as those do, and begin anew. Answered with `KEY VALUE` for each setting, in order, and an empty
 * line; `! MESSAGE` before it where that fails.
 */
public final class Providers {
    private static final String AUTOMATIC = "org.apache.kafka.automatic.config.providers";

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String encoded(Object value) {
        return Base64.getEncoder().encodeToString(String.valueOf(value).getBytes(StandardCharsets.UTF_8));
    }

    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in, StandardCharsets.UTF_8);
        StringBuilder out = new StringBuilder();
        Map<String, Object> settings = new TreeMap<>();
        while (in.hasNextLine()) {
            String[] words = in.nextLine().split(" ", -1);
            switch (words[0]) {
                case "set" -> settings.put(decoded(words[1]), decoded(words[2]));
                case "allow" -> {
                    if (words.length > 1) System.setProperty(AUTOMATIC, decoded(words[1]));
                    else System.clearProperty(AUTOMATIC);
                }
                case "client", "broker" -> {
                    try {
                        Map<String, Object> providers = words[0].equals("broker") ? settings : Map.of();
                        AbstractConfig config = new AbstractConfig(new ConfigDef(), settings, providers, false);
                        for (Map.Entry<String, Object> each : new TreeMap<>(config.originals()).entrySet())
                            out.append(encoded(each.getKey())).append(' ').append(encoded(each.getValue())).append('\n');
                    } catch (RuntimeException error) {
                        out.append("! ").append(encoded(error.getMessage())).append('\n');
                    }
                    out.append('\n');
                    settings = new TreeMap<>();
                }
                default -> throw new IllegalArgumentException(words[0]);
            }
        }
        System.out.print(out);
    }
}
