import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.Timeout;
import org.redisson.Redisson;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RScript;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.ratelimiter.RateLimiterArgs;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Redisson's RRateLimiter: a log of packed permits in sorted sets. */
@Timeout(40)
class RedissonRateLimiterTest {
    private RedissonClient redisson;

    @BeforeEach
    void connect() {
        redisson = client();
    }

    @AfterEach
    void close() {
        redisson.shutdown(0, 5, TimeUnit.SECONDS);
    }

    private static RedissonClient client() {
        Config config = new Config();
        config.setThreads(4).setNettyThreads(4);
        config.useSingleServer()
                .setAddress("redis://" + ServerUnderTest.HOST + ":" + ServerUnderTest.PORT)
                .setConnectionMinimumIdleSize(2)
                .setConnectionPoolSize(8)
                .setRetryAttempts(1)
                .setTimeout(2000);
        return Redisson.create(config);
    }

    private RRateLimiter limiter(TestInfo test, RateType type, long rate, Duration interval) throws Exception {
        RRateLimiter limiter = redisson.getRateLimiter("redisson:" + ServerUnderTest.nameOf(test));
        ServerUnderTest.expect(test, "rate set", true, limiter.trySetRate(type, rate, interval));
        return limiter;
    }

    @Test
    void acquiresUpToTheRate(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.OVERALL, 3, Duration.ofMinutes(1));
        ServerUnderTest.expect(test, "available", 3L, limiter.availablePermits());
        ServerUnderTest.expect(test, "acquired", List.of(true, true, true, false, false),
                ServerUnderTest.inTurn(5, limiter::tryAcquire));
        ServerUnderTest.expect(test, "left", 0L, limiter.availablePermits());
    }

    @Test
    void allowsAgain(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.OVERALL, 2, Duration.ofMillis(700));
        ServerUnderTest.expect(test, "before", List.of(true, true, false), ServerUnderTest.inTurn(3, limiter::tryAcquire));
        Thread.sleep(900);
        ServerUnderTest.expect(test, "available", 2L, limiter.availablePermits());
        ServerUnderTest.expect(test, "after", List.of(true, true, false), ServerUnderTest.inTurn(3, limiter::tryAcquire));
    }

    @Test
    void severalPermitsAndReleased(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.OVERALL, 10, Duration.ofHours(1));
        ServerUnderTest.expect(test, "acquired", List.of(true, false, true),
                List.of(limiter.tryAcquire(6), limiter.tryAcquire(5), limiter.tryAcquire(4)));
        limiter.release(3);
        ServerUnderTest.expect(test, "released", 3L, limiter.availablePermits());
        ServerUnderTest.expect(test, "acquired again", List.of(true, false),
                List.of(limiter.tryAcquire(3), limiter.tryAcquire(1)));
        RedisException error = assertThrows(RedisException.class, () -> limiter.tryAcquire(11));
        ServerUnderTest.expect(test, "more than the rate", true,
                error.getMessage().contains("Requested permits amount cannot exceed defined rate"));
    }

    @Test
    void itsConfiguration(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.OVERALL, 5, Duration.ofSeconds(30));
        ServerUnderTest.expect(test, "set again", false, limiter.trySetRate(RateType.OVERALL, 7, Duration.ofSeconds(30)));
        var config = limiter.getConfig();
        ServerUnderTest.expect(test, "configuration", List.of("OVERALL", 5L, 30_000L),
                List.of(config.getRateType().name(), config.getRate(), config.getRateInterval()));
        limiter.tryAcquire(5);
        limiter.setRate(RateLimiterArgs.of(RateType.OVERALL, 2, Duration.ofSeconds(30)));
        ServerUnderTest.expect(test, "replaced", List.of(true, true, false), ServerUnderTest.inTurn(3, limiter::tryAcquire));
        RRateLimiter none = redisson.getRateLimiter("redisson:none");
        RedisException error = assertThrows(RedisException.class, none::tryAcquire);
        ServerUnderTest.expect(test, "none", true, error.getMessage().contains("RateLimiter is not initialized"));
    }

    @Test
    void itsKeys(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.OVERALL, 5, Duration.ofMinutes(1));
        limiter.tryAcquire(2);
        List<String> keys = StreamSupport.stream(redisson.getKeys().getKeys().spliterator(), false)
                .filter(key -> key.contains("itsKeys"))
                .sorted(Comparator.naturalOrder())
                .toList();
        ServerUnderTest.expect(test, "keys",
                List.of("redisson:itsKeys", "{redisson:itsKeys}:permits", "{redisson:itsKeys}:value"), keys);
        ServerUnderTest.observe(test, "types", keys.stream().map(key -> redisson.getKeys().getType(key).name()).toList());
        ServerUnderTest.expect(test, "expires", true, limiter.expire(Duration.ofSeconds(20)));
        ServerUnderTest.observe(test, "ttl", ServerUnderTest.between(limiter.remainTimeToLive(), 18_000, 20_000));
        ServerUnderTest.expect(test, "deleted", List.of(true, false), List.of(limiter.delete(), limiter.isExists()));
    }

    @Test
    void aRateForEachClient(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.PER_CLIENT, 1, Duration.ofMinutes(1));
        RedissonClient another = client();
        try {
            RRateLimiter theirs = another.getRateLimiter(limiter.getName());
            ServerUnderTest.expect(test, "acquired", List.of(true, false, true, false),
                    List.of(limiter.tryAcquire(), limiter.tryAcquire(), theirs.tryAcquire(), theirs.tryAcquire()));
        } finally {
            another.shutdown(0, 5, TimeUnit.SECONDS);
        }
    }

    @Test
    void waitsItsTurn(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.OVERALL, 1, Duration.ofMillis(800));
        long started = System.nanoTime();
        limiter.acquire();
        limiter.acquire();
        long waited_ms = (System.nanoTime() - started) / 1_000_000;
        ServerUnderTest.observe(test, "waited", ServerUnderTest.between(waited_ms, 600, 30_000));
        ServerUnderTest.expect(test, "too long a wait", false, limiter.tryAcquire(Duration.ofMillis(50)));
        ServerUnderTest.expect(test, "long enough", true, limiter.tryAcquire(Duration.ofSeconds(3)));
    }

    @Test
    void manyAtOnceGetNoMoreThanThereIs(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.OVERALL, 40, Duration.ofHours(1));
        ServerUnderTest.expect(test, "acquired", 40L, ServerUnderTest.countAtOnce(6, 20, limiter::tryAcquire));
    }

    @Test
    void goesOnWhenTheScriptsAreGone(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.OVERALL, 2, Duration.ofHours(1));
        limiter.tryAcquire();
        redisson.getScript(StringCodec.INSTANCE).scriptFlush();
        ServerUnderTest.expect(test, "acquired", List.of(true, false), ServerUnderTest.inTurn(2, limiter::tryAcquire));
        String sum = redisson.getScript(StringCodec.INSTANCE)
                .eval(RScript.Mode.READ_ONLY, "return ARGV[1] + ARGV[2] .. ''", RScript.ReturnType.VALUE, List.of(), "1", "2");
        ServerUnderTest.expect(test, "a script of our own", "3", sum);
    }

    @Test
    void goesOnWhenTheServerWasKilled(TestInfo test) throws Exception {
        RRateLimiter limiter = limiter(test, RateType.OVERALL, 1, Duration.ofHours(1));
        ServerUnderTest.expect(test, "before", List.of(true, false), ServerUnderTest.inTurn(2, limiter::tryAcquire));
        ServerUnderTest.restart();
        ServerUnderTest.eventually(() -> limiter.trySetRate(RateType.OVERALL, 1, Duration.ofHours(1)));
        ServerUnderTest.expect(test, "afterwards", List.of(true, false), ServerUnderTest.inTurn(2, limiter::tryAcquire));
    }
}
