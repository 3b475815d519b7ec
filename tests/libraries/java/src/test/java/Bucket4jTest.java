import static java.nio.charset.StandardCharsets.UTF_8;

import io.github.bucket4j.Bandwidth;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.ConsumptionProbe;
import io.github.bucket4j.TokensInheritanceStrategy;
import io.github.bucket4j.distributed.BucketProxy;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.AbstractProxyManagerBuilder;
import io.github.bucket4j.distributed.proxy.ProxyManager;
import io.github.bucket4j.redis.jedis.Bucket4jJedis;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** bucket4j, whose buckets are blobs that it compares and swaps by script, on Lettuce and on Jedis. */
@Timeout(30)
class Bucket4jTest {
    enum Client {
        LETTUCE,
        JEDIS
    }

    private final List<Runnable> toClose = new ArrayList<>();
    private io.lettuce.core.api.sync.RedisCommands<String, String> direct;

    @BeforeEach
    void connect() {
        direct = lettuce().connect().sync();
    }

    @AfterEach
    void close() {
        toClose.forEach(Runnable::run);
    }

    private RedisClient lettuce() {
        RedisClient client = RedisClient.create(RedisURI.create(ServerUnderTest.HOST, ServerUnderTest.PORT));
        toClose.add(() -> client.shutdown(0, 0, TimeUnit.SECONDS));
        return client;
    }

    private ProxyManager<byte[]> manager(Client client) {
        if (client == Client.LETTUCE) {
            return expiring(Bucket4jLettuce.casBasedBuilder(lettuce()));
        }
        var jedis = redis.clients.jedis.RedisClient.builder()
                .hostAndPort(ServerUnderTest.HOST, ServerUnderTest.PORT)
                .build();
        toClose.add(jedis::close);
        redis.clients.jedis.UnifiedJedis unified = jedis;
        return expiring(Bucket4jJedis.casBasedBuilder(unified));
    }

    private static <P extends ProxyManager<byte[]>, B extends AbstractProxyManagerBuilder<byte[], P, B>> P expiring(B builder) {
        return builder.expirationAfterWrite(
                        ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10)))
                .build();
    }

    private static byte[] key(TestInfo test) {
        return keyName(test).getBytes(UTF_8);
    }

    private static String keyName(TestInfo test) {
        return "bucket4j:" + ServerUnderTest.nameOf(test);
    }

    private static BucketProxy bucket(ProxyManager<byte[]> manager, byte[] key, Bandwidth... limits) {
        var configuration = BucketConfiguration.builder();
        for (Bandwidth limit : limits) {
            configuration.addLimit(limit);
        }
        return manager.builder().build(key, configuration::build);
    }

    private static Bandwidth limit(long capacity, Duration period) {
        return Bandwidth.builder().capacity(capacity).refillGreedy(capacity, period).build();
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void consumesUpToTheLimit(Client client, TestInfo test) throws Exception {
        BucketProxy bucket = bucket(manager(client), key(test), limit(3, Duration.ofMinutes(1)));
        List<ConsumptionProbe> probes = ServerUnderTest.inTurn(5, () -> bucket.tryConsumeAndReturnRemaining(1));
        ServerUnderTest.expect(test, "consumed", List.of(true, true, true, false, false),
                probes.stream().map(ConsumptionProbe::isConsumed).toList());
        ServerUnderTest.expect(test, "remaining", List.of(2L, 1L, 0L, 0L, 0L),
                probes.stream().map(ConsumptionProbe::getRemainingTokens).toList());
        long wait_ms = probes.get(4).getNanosToWaitForRefill() / 1_000_000;
        ServerUnderTest.observe(test, "wait", ServerUnderTest.between(wait_ms, 17_000, 20_000));
        long reset_ms = probes.get(4).getNanosToWaitForReset() / 1_000_000;
        ServerUnderTest.observe(test, "reset", ServerUnderTest.between(reset_ms, 57_000, 60_000));
        ServerUnderTest.expect(test, "estimate", false, bucket.estimateAbilityToConsume(1).canBeConsumed());
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void allowsAgain(Client client, TestInfo test) throws Exception {
        Bandwidth interval = Bandwidth.builder().capacity(2).refillIntervally(2, Duration.ofMillis(700)).build();
        BucketProxy bucket = bucket(manager(client), key(test), interval);
        ServerUnderTest.expect(test, "before", List.of(true, true, false), ServerUnderTest.inTurn(3, () -> bucket.tryConsume(1)));
        Thread.sleep(800);
        ServerUnderTest.expect(test, "after", List.of(true, true, false), ServerUnderTest.inTurn(3, () -> bucket.tryConsume(1)));
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void refundsAndResets(Client client, TestInfo test) throws Exception {
        ProxyManager<byte[]> manager = manager(client);
        BucketProxy bucket = bucket(manager, key(test), limit(10, Duration.ofHours(1)));
        LongSupplier available = bucket::getAvailableTokens;
        ServerUnderTest.expect(test, "consumed", true, bucket.tryConsume(7));
        bucket.addTokens(2);
        ServerUnderTest.expect(test, "refunded", 5L, available.getAsLong());
        bucket.addTokens(100);
        ServerUnderTest.expect(test, "refunded too much", 10L, available.getAsLong());
        bucket.forceAddTokens(5);
        ServerUnderTest.expect(test, "beyond the capacity", 15L, available.getAsLong());
        ServerUnderTest.expect(test, "as many as possible", 12L, bucket.tryConsumeAsMuchAsPossible(12));
        bucket.reset();
        ServerUnderTest.expect(test, "reset", 10L, available.getAsLong());
        ServerUnderTest.expect(test, "in debt", true, bucket.consumeIgnoringRateLimits(13) > 0);
        ServerUnderTest.expect(test, "left in debt", -3L, available.getAsLong());
        manager.removeProxy(key(test));
        ServerUnderTest.expect(test, "configuration removed", true, manager.getProxyConfiguration(key(test)).isEmpty());
        ServerUnderTest.expect(test, "a new bucket", 10L, available.getAsLong());
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void severalLimits(Client client, TestInfo test) throws Exception {
        Bandwidth shortOne = limit(2, Duration.ofMillis(600));
        BucketProxy bucket = bucket(manager(client), key(test), shortOne, limit(3, Duration.ofHours(1)));
        ServerUnderTest.expect(test, "short one", List.of(true, true, false), ServerUnderTest.inTurn(3, () -> bucket.tryConsume(1)));
        Thread.sleep(700);
        ServerUnderTest.expect(test, "long one", List.of(true, false), ServerUnderTest.inTurn(2, () -> bucket.tryConsume(1)));
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void takesAnotherConfiguration(Client client, TestInfo test) throws Exception {
        BucketProxy bucket = bucket(manager(client), key(test), limit(10, Duration.ofHours(1)));
        bucket.tryConsume(4);
        var doubled = BucketConfiguration.builder().addLimit(limit(20, Duration.ofHours(1))).build();
        bucket.replaceConfiguration(doubled, TokensInheritanceStrategy.PROPORTIONALLY);
        ServerUnderTest.expect(test, "left", 12L, bucket.getAvailableTokens());
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void itsKeyIsABlobThatExpires(Client client, TestInfo test) throws Exception {
        BucketProxy bucket = bucket(manager(client), key(test), limit(2, Duration.ofSeconds(60)));
        bucket.tryConsume(2);
        ServerUnderTest.expect(test, "type", "string", direct.type(keyName(test)));
        // What refilling takes, and ten seconds.
        ServerUnderTest.observe(test, "ttl", ServerUnderTest.between(direct.pttl(keyName(test)), 66_000, 71_000));
        byte[] binary = {(byte) client.ordinal(), -1, '\r', '\n', 127, -128};
        BucketProxy other = bucket(manager(client), binary, limit(1, Duration.ofHours(1)));
        ServerUnderTest.expect(test, "a key of any bytes", List.of(true, false),
                ServerUnderTest.inTurn(2, () -> other.tryConsume(1)));
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void manyAtOnceGetNoMoreThanThereIs(Client client, TestInfo test) throws Exception {
        BucketProxy bucket = bucket(manager(client), key(test), limit(40, Duration.ofDays(1)));
        long consumed = ServerUnderTest.countAtOnce(6, 20, () -> bucket.tryConsume(1));
        ServerUnderTest.expect(test, "consumed", 40L, consumed);
        ServerUnderTest.expect(test, "left", 0L, bucket.getAvailableTokens());
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void waitsItsTurn(Client client, TestInfo test) throws Exception {
        BucketProxy bucket = bucket(manager(client), key(test), limit(2, Duration.ofSeconds(1)));
        long started = System.nanoTime();
        bucket.tryConsume(2);
        bucket.asBlocking().consume(1);
        long waited_ms = (System.nanoTime() - started) / 1_000_000;
        ServerUnderTest.observe(test, "waited", ServerUnderTest.between(waited_ms, 400, 30_000));
        ServerUnderTest.expect(test, "too long a wait", false, bucket.asBlocking().tryConsume(2, Duration.ofMillis(100)));
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void asynchronously(Client client, TestInfo test) throws Exception {
        ProxyManager<byte[]> manager = manager(client);
        ServerUnderTest.expect(test, "supported", client == Client.LETTUCE, manager.isAsyncModeSupported());
        if (manager.isAsyncModeSupported()) {
            var configuration = BucketConfiguration.builder().addLimit(limit(2, Duration.ofHours(1))).build();
            var bucket = manager.asAsync().builder()
                    .build(key(test), () -> java.util.concurrent.CompletableFuture.completedFuture(configuration));
            ServerUnderTest.expect(test, "consumed", List.of(true, true, false),
                    ServerUnderTest.inTurn(3, () -> bucket.tryConsume(1).get()));
        }
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void goesOnWhenTheScriptsAreGoneAndTheServerWasKilled(Client client, TestInfo test) throws Exception {
        BucketProxy bucket = bucket(manager(client), key(test), limit(2, Duration.ofHours(1)));
        bucket.tryConsume(1);
        direct.scriptFlush();
        ServerUnderTest.expect(test, "consumed", List.of(true, false), ServerUnderTest.inTurn(2, () -> bucket.tryConsume(1)));
        ServerUnderTest.restart();
        ServerUnderTest.eventually(bucket::getAvailableTokens);
        ServerUnderTest.expect(test, "afterwards", List.of(true, true, false),
                ServerUnderTest.inTurn(3, () -> bucket.tryConsume(1)));
    }
}
