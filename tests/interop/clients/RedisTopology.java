// jedis: alone, as a cluster's client and through a sentinel; usage: Peer PORT KEY KIND.
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisSentineled;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;

public class Peer {
    static final ProtocolCommand THROTTLE = () -> "CL.THROTTLE".getBytes(StandardCharsets.US_ASCII);

    static Object ask(UnifiedJedis client, String key) throws InterruptedException {
        final long until = System.nanoTime() + 30_000_000_000L;
        for (;;) {
            try {
                return client instanceof JedisCluster
                        ? ((JedisCluster) client).sendCommand(key, THROTTLE, key, "9", "5", "3600")
                        : client.sendCommand(THROTTLE, key, "9", "5", "3600");
            } catch (RuntimeException failure) {
                if (System.nanoTime() > until)
                    throw failure;
                Thread.sleep(100);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        final HostAndPort node = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
        final String key = arguments[1];
        final UnifiedJedis client = switch (arguments[2]) {
            case "cluster" -> new JedisCluster(node);
            case "sentinel" -> new JedisSentineled("mymaster", DefaultJedisClientConfig.builder().build(), Set.of(node),
                    DefaultJedisClientConfig.builder().build());
            default -> new JedisPooled(node);
        };
        final Object first = ask(client, key);
        final List<Object> pipelined = new ArrayList<>(List.of(ask(client, key), ask(client, key)));
        if (arguments[2].equals("alone")) {
            pipelined.clear();
            try (var transaction = client.multi()) {
                final var one = transaction.exists(key);
                final var other = transaction.exists(key);
                transaction.exec();
                pipelined.add(one.get());
                pipelined.add(other.get());
            }
        }
        final long deleted = client.del(key);
        final boolean exists = client.exists(key);
        System.out.println("ready");
        System.in.read();
        System.out.printf("{\"first\": %s, \"pipelined\": %s, \"deleted\": %d, \"exists\": %d, \"after\": %s}%n", first,
                pipelined, deleted, exists ? 1 : 0, ask(client, key));
        System.exit(0);
    }
}
