import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.Timeout;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.core.io.ClassPathResource;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.ReactiveStringRedisTemplate;
import org.springframework.data.redis.core.script.DefaultRedisScript;

/**
 * Spring Cloud Gateway's RedisRateLimiter with its own script, on Spring Data Redis and Lettuce. It lets a request through
 * where Redis fails, with -1 remaining; that is why the remaining tokens are looked at everywhere.
 */
@Timeout(30)
class SpringCloudGatewayTest {
    /** How long one answer of the limiter may take. */
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private LettuceConnectionFactory factory;
    private CommandsUnderWay commands;
    private RedisRateLimiter limiter;
    private RedisClient client;
    private RedisCommands<String, String> direct;

    @BeforeEach
    void connect() {
        factory = new LettuceConnectionFactory(ServerUnderTest.HOST, ServerUnderTest.PORT);
        factory.afterPropertiesSet();
        factory.start();
        commands = new CommandsUnderWay();
        factory.getRequiredNativeClient().addListener(commands);
        DefaultRedisScript<List<Long>> script = new DefaultRedisScript<>();
        script.setLocation(new ClassPathResource("META-INF/scripts/request_rate_limiter.lua"));
        script.setResultType(listOfLongs());
        ConfigurationService unused = new ConfigurationService(new DefaultListableBeanFactory(), () -> null, () -> null);
        limiter = new RedisRateLimiter(new ReactiveStringRedisTemplate(factory), script, unused);
        client = RedisClient.create(RedisURI.create(ServerUnderTest.HOST, ServerUnderTest.PORT));
        direct = client.connect().sync();
    }

    @AfterEach
    void close() {
        factory.destroy();
        client.shutdown(0, 0, TimeUnit.SECONDS);
    }

    @SuppressWarnings("unchecked") // a class object of a parameterized type is to be had in no other way
    private static Class<List<Long>> listOfLongs() {
        return (Class<List<Long>>) (Class<?>) List.class;
    }

    private void route(String name, int rate, long burst, int requested) {
        limiter.getConfig().put(name, new RedisRateLimiter.Config()
                .setReplenishRate(rate).setBurstCapacity(burst).setRequestedTokens(requested));
    }

    /**
     * Asks, and once more if the server has answered and Lettuce told nobody. Its reactive commands lose an error, such as
     * NOSCRIPT, that arrives in the instant in which the thread that sent the command changes the state of its subscription:
     * `RedisPublisher.State.onError` of 7.7.0 gives up where it should look again. It is rare; with pauses put there it happens
     * on redis-server as well. An error has taken no tokens, so a second question comes to the same. Where the server did not
     * answer in time, there is none.
     */
    private RateLimiter.Response ask(String route, String user) {
        try {
            return limiter.isAllowed(route, user).block(PATIENCE);
        } catch (IllegalStateException timeout) {
            if (!commands.wereAnsweredWithin(PATIENCE.dividedBy(2))) {
                throw new IllegalStateException("the server did not answer in time; " + commands, timeout);
            }
            return limiter.isAllowed(route, user).block(PATIENCE);
        }
    }

    private static String remaining(RateLimiter.Response response) {
        return response.getHeaders().get(RedisRateLimiter.REMAINING_HEADER);
    }

    private static List<Boolean> allowed(List<RateLimiter.Response> responses) {
        return responses.stream().map(RateLimiter.Response::isAllowed).toList();
    }

    @Test
    void allowsTheBurst(TestInfo test) throws Exception {
        // One token of sixty a second's worth, so that none comes back while the test runs.
        route("burst", 1, 180, 60);
        var responses = ServerUnderTest.inTurn(5, () -> ask("burst", "user"));
        ServerUnderTest.expect(test, "allowed", List.of(true, true, true, false, false), allowed(responses));
        ServerUnderTest.expect(test, "first", "120", remaining(responses.get(0)));
        long left = Long.parseLong(remaining(responses.get(4)));
        ServerUnderTest.observe(test, "left", ServerUnderTest.between(left, 0, 10));
        ServerUnderTest.expect(test, "headers", List.of("1", "180", "60"), List.of(
                responses.get(0).getHeaders().get(RedisRateLimiter.REPLENISH_RATE_HEADER),
                responses.get(0).getHeaders().get(RedisRateLimiter.BURST_CAPACITY_HEADER),
                responses.get(0).getHeaders().get(RedisRateLimiter.REQUESTED_TOKENS_HEADER)));
        ServerUnderTest.expect(test, "other user", "120", remaining(ask("burst", "other")));
    }

    @Test
    void allowsAgain(TestInfo test) throws Exception {
        route("again", 1, 1, 1);
        ServerUnderTest.expect(test, "first", true, ask("again", "user").isAllowed());
        // It counts in whole seconds: soon after a second begins, the next is far away.
        Thread.sleep(2_050);
        ServerUnderTest.expect(test, "second", "0", remaining(ask("again", "user")));
    }

    @Test
    void itsKeys(TestInfo test) throws Exception {
        route("keys", 1, 60, 20);
        ask("keys", "ann");
        List<String> keys = direct.keys("request_rate_limiter*keys*").stream().sorted().toList();
        ServerUnderTest.expect(test, "keys",
                List.of("request_rate_limiter.{keys.ann}.timestamp", "request_rate_limiter.{keys.ann}.tokens"), keys);
        ServerUnderTest.expect(test, "tokens", "40", direct.get(keys.get(1)));
        long age_s = System.currentTimeMillis() / 1000 - Long.parseLong(direct.get(keys.get(0)));
        ServerUnderTest.observe(test, "age", ServerUnderTest.between(age_s, -1, 5));
        ServerUnderTest.observe(test, "ttl", ServerUnderTest.between(direct.ttl(keys.get(1)), 118, 120));
        direct.del(keys.get(1));
        ServerUnderTest.expect(test, "after the delete", "40", remaining(ask("keys", "ann")));
    }

    @Test
    void manyAtOnceGetNoMoreThanThereIs(TestInfo test) throws Exception {
        route("at-once", 1, 24_000, 1000);
        ServerUnderTest.expect(test, "allowed", 24L,
                ServerUnderTest.countAtOnce(6, 10, () -> ask("at-once", "user").isAllowed()));
    }

    @Test
    void goesOnWhenTheScriptsAreGone(TestInfo test) throws Exception {
        route("flushed", 1, 120, 60);
        ask("flushed", "user");
        direct.scriptFlush();
        var responses = ServerUnderTest.inTurn(2, () -> ask("flushed", "user"));
        ServerUnderTest.expect(test, "allowed", List.of(true, false), allowed(responses));
    }

    @Test
    void letsThroughWhenTheScriptFails(TestInfo test) throws Exception {
        route("failing", 1, 120, 60);
        direct.lpush("request_rate_limiter.{failing.user}.tokens", "no number");
        var response = ask("failing", "user");
        ServerUnderTest.expect(test, "allowed", List.of(true, "-1"), List.of(response.isAllowed(), remaining(response)));
    }

    @Test
    void goesOnWhenTheServerWasKilled(TestInfo test) throws Exception {
        route("restart", 1, 120, 60);
        ServerUnderTest.inTurn(2, () -> ask("restart", "user"));
        ServerUnderTest.restart();
        ServerUnderTest.eventually(() -> {
            var response = ask("restart", "other");
            if (remaining(response).equals("-1")) {
                throw new IllegalStateException("not connected yet");
            }
            return response;
        });
        var responses = ServerUnderTest.inTurn(3, () -> ask("restart", "user"));
        ServerUnderTest.expect(test, "afterwards", List.of(true, true, false), allowed(responses));
    }
}
