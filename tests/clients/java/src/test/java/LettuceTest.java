import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ObjectOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Lettuce against a node, in both protocols. */
@Timeout(30)
class LettuceTest {
    private static final ProtocolKeyword CHECK = new Keyword("RL.CHECK");
    private static final ProtocolKeyword THROTTLE = new Keyword("CL.THROTTLE");
    private static final RedisClient CLIENT = RedisClient.create();

    private record Keyword(String text) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return text.getBytes(StandardCharsets.US_ASCII);
        }
    }

    @AfterAll
    static void shutDown() {
        CLIENT.shutdown(0, 5, TimeUnit.SECONDS);
    }

    private static RedisURI.Builder uri(int port) {
        return RedisURI.Builder.redis(NodeUnderTest.HOST, port).withTimeout(Duration.ofSeconds(10));
    }

    private static StatefulRedisConnection<String, String> connect(ProtocolVersion protocol, RedisURI.Builder uri) {
        CLIENT.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
        return CLIENT.connect(uri.build());
    }

    private static StatefulRedisConnection<String, String> connect(ProtocolVersion protocol) {
        return connect(protocol, uri(NodeUnderTest.PORT));
    }

    private static Object call(RedisCommands<String, String> sync, ProtocolKeyword command, String... words) {
        return sync.dispatch(command, new ObjectOutput<>(StringCodec.UTF8), args(words));
    }

    private static CommandArgs<String, String> args(String... words) {
        return new CommandArgs<>(StringCodec.UTF8).addKey(words[0]).addValues(List.of(words).subList(1, words.length));
    }

    private static NodeUnderTest.Fields fields(Object reply, ProtocolVersion protocol) {
        if (protocol == ProtocolVersion.RESP2) {
            return NodeUnderTest.Fields.of(assertInstanceOf(List.class, reply));
        }
        Map<String, Object> byName = new LinkedHashMap<>();
        Map<?, ?> map = assertInstanceOf(Map.class, reply);
        map.forEach((name, value) -> byName.put((String) name, value));
        return NodeUnderTest.Fields.of(byName);
    }

    private static NodeUnderTest.Fields check(
            RedisCommands<String, String> sync, String key, ProtocolVersion protocol) {
        return fields(call(sync, CHECK, key, "LIMIT", "5", "PER", "1m"), protocol);
    }

    @ParameterizedTest
    @EnumSource
    void connectsWithANameAndADatabase(ProtocolVersion protocol) {
        String key = NodeUnderTest.newKey("database");
        RedisURI.Builder withBoth = uri(NodeUnderTest.PORT).withDatabase(3).withClientName("checkout");
        try (var third = connect(protocol, withBoth); var first = connect(protocol)) {
            assertEquals("checkout", third.sync().clientGetname());
            check(third.sync(), key, protocol);
            assertEquals(1, third.sync().exists(key));
            assertEquals(0, first.sync().exists(key));
        }
    }

    @ParameterizedTest
    @EnumSource
    void rlCheckAllowsFiveOfSeven(ProtocolVersion protocol) {
        String key = NodeUnderTest.newKey("check");
        try (var connection = connect(protocol)) {
            List<NodeUnderTest.Fields> replies = new ArrayList<>();
            for (int n = 0; n < 7; n++) {
                replies.add(check(connection.sync(), key, protocol));
            }
            NodeUnderTest.assertFiveOfSevenAllowed(replies);
        }
    }

    @ParameterizedTest
    @EnumSource
    void clThrottleAllowsFiveOfSeven(ProtocolVersion protocol) {
        String key = NodeUnderTest.newKey("throttle");
        try (var connection = connect(protocol)) {
            List<List<Long>> replies = new ArrayList<>();
            for (int n = 0; n < 7; n++) {
                List<?> reply = assertInstanceOf(List.class, call(connection.sync(), THROTTLE, key, "4", "5", "60"));
                replies.add(reply.stream().map(Long.class::cast).toList());
            }
            NodeUnderTest.assertThrottledAfterFive(replies);
        }
    }

    @ParameterizedTest
    @EnumSource
    void aBucketIsAKey(ProtocolVersion protocol) {
        String key = NodeUnderTest.newKey("bucket");
        try (var connection = connect(protocol)) {
            RedisCommands<String, String> sync = connection.sync();
            check(sync, key, protocol);
            assertEquals(1, sync.exists(key));
            assertEquals("bucket", sync.type(key));
            assertTrue(sync.ttl(key) > 0);
            List<String> found = new ArrayList<>();
            ScanIterator.scan(sync, ScanArgs.Builder.matches(key + "*")).forEachRemaining(found::add);
            assertEquals(List.of(key), found);
            assertEquals(1, sync.del(key));
            assertEquals(0, sync.exists(key));
            assertEquals("none", sync.type(key));
            assertEquals(-2, sync.ttl(key));
        }
    }

    @ParameterizedTest
    @EnumSource
    void aPipelineIsAnsweredInOrder(ProtocolVersion protocol) throws Exception {
        String key = NodeUnderTest.newKey("pipeline");
        try (var connection = connect(protocol)) {
            connection.setAutoFlushCommands(false);
            List<RedisFuture<Object>> replies = new ArrayList<>();
            for (int n = 0; n < 1000; n++) {
                replies.add(connection.async().dispatch(
                        CHECK, new ObjectOutput<>(StringCodec.UTF8), args(key, "LIMIT", "1000", "PER", "30d")));
            }
            connection.flushCommands();
            List<NodeUnderTest.Fields> read = new ArrayList<>();
            for (RedisFuture<Object> reply : replies) {
                read.add(fields(reply.get(10, TimeUnit.SECONDS), protocol));
            }
            NodeUnderTest.assertCountsDownFrom999(read);
        }
    }

    @ParameterizedTest
    @EnumSource
    void anErrorIsARedisCommandExecutionException(ProtocolVersion protocol) throws Exception {
        String key = NodeUnderTest.newKey("error");
        try (var connection = connect(protocol)) {
            RedisCommands<String, String> sync = connection.sync();
            assertThrows(
                    RedisCommandExecutionException.class, () -> call(sync, CHECK, key, "LIMIT", "0", "PER", "1m"));
            var error = assertThrows(
                    RedisCommandExecutionException.class, () -> call(sync, new Keyword("RL.NO-SUCH-COMMAND"), key));
            assertTrue(error.getMessage().contains("unknown command"), error.getMessage());
            List<RedisFuture<Object>> replies = new ArrayList<>();
            for (String limit : List.of("5", "five", "5")) {
                replies.add(connection.async().dispatch(
                        CHECK, new ObjectOutput<>(StringCodec.UTF8), args(key, "LIMIT", limit, "PER", "1m")));
            }
            assertEquals(4, fields(replies.get(0).get(10, TimeUnit.SECONDS), protocol).remaining());
            var failed = assertThrows(ExecutionException.class, () -> replies.get(1).get(10, TimeUnit.SECONDS));
            assertInstanceOf(RedisCommandExecutionException.class, failed.getCause());
            assertEquals(3, fields(replies.get(2).get(10, TimeUnit.SECONDS), protocol).remaining());
        }
    }

    @ParameterizedTest
    @EnumSource
    void recoversWhenTheNodeIsKilledAndStartedAgain(ProtocolVersion protocol) throws Exception {
        String key = NodeUnderTest.newKey("reconnect");
        try (var connection = connect(protocol)) {
            check(connection.sync(), key, protocol);
            NodeUnderTest.restart();
            NodeUnderTest.eventually(() -> check(connection.sync(), key, protocol));
            assertEquals(1, connection.sync().exists(key));
        }
    }

    @ParameterizedTest
    @EnumSource
    void aPasswordIsAskedFor(ProtocolVersion protocol) {
        String key = NodeUnderTest.newKey("password");
        int port = NodeUnderTest.PASSWORD_PORT;
        try (var connection = connect(protocol, uri(port).withPassword((CharSequence) NodeUnderTest.PASSWORD))) {
            assertEquals(1, check(connection.sync(), key, protocol).allowed());
        }
        assertAccessRefused("WRONGPASS", protocol, uri(port).withPassword((CharSequence) "wrong"));
        assertAccessRefused("NOAUTH", protocol, uri(port));
    }

    /** Lettuce 7 reports this in place of the server's error when the error comes before the handshake is waited for. */
    private static final String LETTUCE_RACE = "RedisHandshakeHandler not registered";

    private static void assertAccessRefused(String code, ProtocolVersion protocol, RedisURI.Builder uri) {
        RuntimeException error;
        Throwable cause;
        int attempts = 0;
        do {
            error = assertThrows(RuntimeException.class, () -> {
                try (var connection = connect(protocol, uri)) {
                    connection.sync().ping();
                }
            });
            cause = error;
            while (!(cause instanceof RedisCommandExecutionException) && cause.getCause() != null) {
                cause = cause.getCause();
            }
        } while (LETTUCE_RACE.equals(cause.getMessage()) && ++attempts < 20);
        RuntimeException refusal = error;
        Throwable last = cause;
        assertInstanceOf(RedisCommandExecutionException.class, cause, () -> {
            var trace = new java.io.StringWriter();
            refusal.printStackTrace(new java.io.PrintWriter(trace));
            return "the last cause is " + last + ", of\n" + trace;
        });
        assertTrue(cause.getMessage().startsWith(code), cause.getMessage());
    }
}
