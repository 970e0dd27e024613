// lettuce: alone, as a cluster's client and through a sentinel; usage: Peer PORT KEY KIND.
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.async.RedisClusterAsyncCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;

public class Peer {
    enum Word implements ProtocolKeyword {
        THROTTLE;

        @Override
        public byte[] getBytes() {
            return "CL.THROTTLE".getBytes(StandardCharsets.US_ASCII);
        }
    }

    static RedisFuture<List<Object>> send(RedisClusterAsyncCommands<String, String> client, String key) {
        final CommandArgs<String, String> arguments =
                new CommandArgs<>(StringCodec.UTF8).addKey(key).add("9").add("5").add("3600");
        return client.dispatch(Word.THROTTLE, new ArrayOutput<>(StringCodec.UTF8), arguments);
    }

    static Object ask(RedisClusterAsyncCommands<String, String> client, String key) throws Exception {
        final long until = System.nanoTime() + 30_000_000_000L;
        for (;;) {
            try {
                return send(client, key).get(10, TimeUnit.SECONDS);
            } catch (Exception failure) {
                if (System.nanoTime() > until)
                    throw failure;
                Thread.sleep(100);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        final int port = Integer.parseInt(arguments[0]);
        final String key = arguments[1];
        final RedisURI node = RedisURI.create("127.0.0.1", port);
        final RedisClusterAsyncCommands<String, String> client = switch (arguments[2]) {
            case "cluster" -> RedisClusterClient.create(node).connect().async();
            case "sentinel" -> RedisClient.create(RedisURI.Builder.sentinel("127.0.0.1", port, "mymaster").build())
                    .connect().async();
            default -> RedisClient.create(node).connect().async();
        };
        final Object first = ask(client, key);
        final List<Object> pipelined;
        if (arguments[2].equals("alone")) {
            final StatefulRedisConnection<String, String> connection = RedisClient.create(node).connect();
            connection.async().multi();
            send(connection.async(), key);
            send(connection.async(), key);
            pipelined = connection.async().exec().get(10, TimeUnit.SECONDS).stream().toList();
            connection.close();
        } else {
            final RedisFuture<List<Object>> one = send(client, key);
            final RedisFuture<List<Object>> other = send(client, key);
            pipelined = List.of(one.get(10, TimeUnit.SECONDS), other.get(10, TimeUnit.SECONDS));
        }
        final long deleted = client.del(key).get(10, TimeUnit.SECONDS);
        final long exists = client.exists(key).get(10, TimeUnit.SECONDS);
        System.out.println("ready");
        System.in.read();
        System.out.printf("{\"first\": %s, \"pipelined\": %s, \"deleted\": %d, \"exists\": %d, \"after\": %s}%n", first,
                pipelined, deleted, exists, ask(client, key));
        System.exit(0);
    }
}
