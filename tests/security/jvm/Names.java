import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Scanner;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Reads `name HEX` (a Name in DER) and `map RULES NAME` or `local RULES PRINCIPAL` (both in base64); writes what Java and Kafka make of it, in base64, or `!`. */
public final class Names {
    public static void main(String[] arguments) {
        StringBuilder out = new StringBuilder();
        Scanner in = new Scanner(System.in, StandardCharsets.UTF_8);
        while (in.hasNextLine()) {
            String[] words = in.nextLine().split(" ", -1);
            String answer;
            try {
                answer = words[0].equals("name")
                    ? new X500Principal(HexFormat.of().parseHex(words[1])).getName()
                    : words[0].equals("local")
                    ? KerberosShortNamer.fromUnparsedRules("REALM.COM", List.of(decoded(words[1]).split(",", -1)))
                        .shortName(KerberosName.parse(decoded(words[2])))
                    : SslPrincipalMapper.fromRules(decoded(words[1])).getName(decoded(words[2]));
                answer = Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8));
            } catch (Exception error) {
                answer = "!";
            }
            out.append(answer).append('\n');
        }
        System.out.print(out);
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
