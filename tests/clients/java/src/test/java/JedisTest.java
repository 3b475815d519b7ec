import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisAccessControlException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.util.KeyValue;
import redis.clients.jedis.util.SafeEncoder;

/** Jedis against a node, in both protocols. */
@Timeout(30)
@SuppressWarnings("deprecation") // sendCommand with strings is what programs written for a generic command call use
class JedisTest {
    private static final ProtocolCommand CHECK = () -> SafeEncoder.encode("RL.CHECK");
    private static final ProtocolCommand THROTTLE = () -> SafeEncoder.encode("CL.THROTTLE");

    private static DefaultJedisClientConfig.Builder config(RedisProtocol protocol) {
        return DefaultJedisClientConfig.builder().protocol(protocol);
    }

    private static RedisClient connect(int port, DefaultJedisClientConfig.Builder config) {
        return RedisClient.builder().hostAndPort(NodeUnderTest.HOST, port).clientConfig(config.build()).build();
    }

    private static RedisClient connect(RedisProtocol protocol) {
        return connect(NodeUnderTest.PORT, config(protocol));
    }

    private static NodeUnderTest.Fields fields(Object reply, RedisProtocol protocol) {
        List<?> items = assertInstanceOf(List.class, reply);
        if (protocol == RedisProtocol.RESP2) {
            return NodeUnderTest.Fields.of(items.stream().map(JedisTest::text).toList());
        }
        Map<String, Object> byName = new LinkedHashMap<>();
        for (Object item : items) {
            KeyValue<?, ?> pair = assertInstanceOf(KeyValue.class, item);
            byName.put((String) text(pair.getKey()), text(pair.getValue()));
        }
        return NodeUnderTest.Fields.of(byName);
    }

    private static Object text(Object value) {
        return value instanceof byte[] bytes ? SafeEncoder.encode(bytes) : value;
    }

    private static NodeUnderTest.Fields check(RedisClient client, String key, RedisProtocol protocol) {
        return fields(client.sendCommand(CHECK, key, "LIMIT", "5", "PER", "1m"), protocol);
    }

    @ParameterizedTest
    @EnumSource
    void connectsWithANameAndADatabase(RedisProtocol protocol) {
        String key = NodeUnderTest.newKey("database");
        try (RedisClient third = connect(NodeUnderTest.PORT, config(protocol).database(3).clientName("checkout"));
                RedisClient first = connect(protocol)) {
            assertEquals("checkout", text(third.sendCommand(Protocol.Command.CLIENT, "GETNAME")));
            check(third, key, protocol);
            assertTrue(third.exists(key));
            assertFalse(first.exists(key));
        }
    }

    @ParameterizedTest
    @EnumSource
    void rlCheckAllowsFiveOfSeven(RedisProtocol protocol) {
        String key = NodeUnderTest.newKey("check");
        try (RedisClient client = connect(protocol)) {
            List<NodeUnderTest.Fields> replies = new ArrayList<>();
            for (int n = 0; n < 7; n++) {
                replies.add(check(client, key, protocol));
            }
            NodeUnderTest.assertFiveOfSevenAllowed(replies);
        }
    }

    @ParameterizedTest
    @EnumSource
    void clThrottleAllowsFiveOfSeven(RedisProtocol protocol) {
        String key = NodeUnderTest.newKey("throttle");
        try (RedisClient client = connect(protocol)) {
            List<List<Long>> replies = new ArrayList<>();
            for (int n = 0; n < 7; n++) {
                List<?> reply = assertInstanceOf(List.class, client.sendCommand(THROTTLE, key, "4", "5", "60"));
                replies.add(reply.stream().map(Long.class::cast).toList());
            }
            NodeUnderTest.assertThrottledAfterFive(replies);
        }
    }

    @ParameterizedTest
    @EnumSource
    void aBucketIsAKey(RedisProtocol protocol) {
        String key = NodeUnderTest.newKey("bucket");
        try (RedisClient client = connect(protocol)) {
            check(client, key, protocol);
            assertTrue(client.exists(key));
            assertEquals("bucket", client.type(key));
            assertTrue(client.ttl(key) > 0);
            List<String> found = new ArrayList<>();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                var page = client.scan(cursor, new ScanParams().match(key + "*"));
                found.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            assertEquals(List.of(key), found);
            assertEquals(1, client.del(key));
            assertFalse(client.exists(key));
            assertEquals("none", client.type(key));
            assertEquals(-2, client.ttl(key));
        }
    }

    @ParameterizedTest
    @EnumSource
    void aPipelineIsAnsweredInOrder(RedisProtocol protocol) {
        String key = NodeUnderTest.newKey("pipeline");
        try (RedisClient client = connect(protocol); Pipeline pipeline = client.pipelined()) {
            List<Response<Object>> replies = new ArrayList<>();
            for (int n = 0; n < 1000; n++) {
                replies.add(pipeline.sendCommand(CHECK, key, "LIMIT", "1000", "PER", "30d"));
            }
            pipeline.sync();
            NodeUnderTest.assertCountsDownFrom999(
                    replies.stream().map(reply -> fields(reply.get(), protocol)).toList());
        }
    }

    @ParameterizedTest
    @EnumSource
    void anErrorIsAJedisDataException(RedisProtocol protocol) {
        String key = NodeUnderTest.newKey("error");
        try (RedisClient client = connect(protocol); Pipeline pipeline = client.pipelined()) {
            assertThrows(JedisDataException.class, () -> client.sendCommand(CHECK, key, "LIMIT", "0", "PER", "1m"));
            ProtocolCommand unknown = () -> SafeEncoder.encode("RL.NO-SUCH-COMMAND");
            var error = assertThrows(JedisDataException.class, () -> client.sendCommand(unknown, key));
            assertTrue(error.getMessage().contains("unknown command"), error.getMessage());
            List<Response<Object>> replies = new ArrayList<>();
            for (String limit : List.of("5", "five", "5")) {
                replies.add(pipeline.sendCommand(CHECK, key, "LIMIT", limit, "PER", "1m"));
            }
            pipeline.sync();
            assertEquals(4, fields(replies.get(0).get(), protocol).remaining());
            assertThrows(JedisDataException.class, replies.get(1)::get);
            assertEquals(3, fields(replies.get(2).get(), protocol).remaining());
        }
    }

    @ParameterizedTest
    @EnumSource
    void recoversWhenTheNodeIsKilledAndStartedAgain(RedisProtocol protocol) throws Exception {
        String key = NodeUnderTest.newKey("reconnect");
        try (RedisClient client = connect(protocol)) {
            check(client, key, protocol);
            NodeUnderTest.restart();
            NodeUnderTest.eventually(() -> check(client, key, protocol));
            assertTrue(client.exists(key));
        }
    }

    @ParameterizedTest
    @EnumSource
    void aPasswordIsAskedFor(RedisProtocol protocol) {
        String key = NodeUnderTest.newKey("password");
        int port = NodeUnderTest.PASSWORD_PORT;
        try (RedisClient client = connect(port, config(protocol).password(NodeUnderTest.PASSWORD))) {
            assertEquals(1, check(client, key, protocol).allowed());
        }
        assertAccessRefused("WRONGPASS", port, config(protocol).password("wrong"));
        assertAccessRefused("NOAUTH", port, config(protocol));
    }

    private static void assertAccessRefused(String code, int port, DefaultJedisClientConfig.Builder config) {
        RuntimeException error = assertThrows(RuntimeException.class, () -> {
            try (RedisClient client = connect(port, config)) {
                client.ping();
            }
        });
        Throwable cause = error;
        while (!(cause instanceof JedisAccessControlException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        assertInstanceOf(JedisAccessControlException.class, cause);
        assertTrue(cause.getMessage().startsWith(code), cause.getMessage());
    }
}
