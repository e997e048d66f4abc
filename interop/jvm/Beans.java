import com.sun.tools.attach.VirtualMachine;
import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * The names of the MBeans of a running JVM, as JMX shows them: a line for each, "NAME ATTRIBUTE,ATTRIBUTE,...", the two with a tab between.
 * The only argument is the id of its process.
 */
public class Beans {
    public static void main(String[] arguments) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(arguments[0]);
        String address = machine.startLocalManagementAgent();
        machine.detach();
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (ObjectName name : new TreeSet<>(server.queryNames(new ObjectName("kafka*:*"), null))) {
                StringBuilder line = new StringBuilder(name.toString()).append('\t');
                for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
                    line.append(attribute.getName()).append(',');
                }
                System.out.println(line);
            }
        }
    }
}
