"""pyrate-limiter on its Redis bucket. Run by tests/run.py."""

import asyncio
import time

import pytest
import redis
import redis.asyncio
from pyrate_limiter import BucketFactory, Duration, Limiter, Rate, RateItem, RedisBucket
from redis.exceptions import NoScriptError
from server_under_test import HOST, PORT, at_once, between, eventually, restart_server


@pytest.fixture
def client():
    with redis.Redis(host=HOST, port=PORT) as client:
        yield client


def bucket_of(client, key, *rates):
    return RedisBucket.init(list(rates), client, key)


def acquired(limiter, count, name="user", **options):
    return [limiter.try_acquire(name, blocking=False, **options) for _ in range(count)]


def test_up_to_the_rate(client, transcript):
    with Limiter(bucket_of(client, "pyrate:rate", Rate(3, Duration.SECOND))) as limiter:
        transcript.expect("acquired", acquired(limiter, 5), [True, True, True, False, False])
        time.sleep(1.1)
        transcript.expect("afterwards", acquired(limiter, 4), [True, True, True, False])


def test_several_rates(client, transcript):
    bucket = bucket_of(client, "pyrate:several", Rate(2, 500), Rate(3, Duration.MINUTE))
    now_ms = bucket.now()
    puts, failing = [], []
    for at_ms in (0, 1, 2, 600, 601):
        puts.append(bucket.put(RateItem("user", now_ms + at_ms)))
        failing.append(bucket.failing_rate and bucket.failing_rate.limit)
    transcript.expect("put", puts, [True, True, False, True, False])
    transcript.expect("failing", failing, [None, None, 2, None, 3])
    transcript.expect("count", bucket.count(), 3)


def test_the_wait(client, transcript):
    bucket = bucket_of(client, "pyrate:wait", Rate(2, 5000))
    now_ms = bucket.now()
    assert bucket.put(RateItem("user", now_ms)) and bucket.put(RateItem("user", now_ms + 1000))
    item = RateItem("user", now_ms + 1500)
    transcript.expect("refused", bucket.put(item), False)
    transcript.observe("wait", between(bucket.waiting(item), 3500, 3550))


def test_weights(client, transcript):
    with Limiter(bucket_of(client, "pyrate:weight", Rate(10, Duration.MINUTE))) as limiter:
        weights = [limiter.try_acquire("user", weight=weight, blocking=False) for weight in (4, 7, 6, 1, 0)]
        transcript.expect("acquired", weights, [True, False, True, False, True])
        transcript.expect("never fits", limiter.try_acquire("user", weight=11, blocking=False), False)


def test_a_weight_of_thousands(client, transcript):
    bucket = bucket_of(client, "pyrate:large", Rate(7000, Duration.MINUTE))
    now_ms = bucket.now()
    transcript.expect("put", [bucket.put(RateItem("user", now_ms, weight=3500)) for _ in range(3)], [True, True, False])
    transcript.expect("count", bucket.count(), 7000)


def test_peek_leak_and_flush(client, transcript):
    bucket = bucket_of(client, "pyrate:leak", Rate(5, 1000))
    now_ms = bucket.now()
    for n in range(4):
        bucket.put(RateItem(f"user-{n}", now_ms - 2000 + n * 900))
    peeked = [bucket.peek(index) for index in range(5)]
    transcript.expect("peek", [item and item.timestamp - now_ms for item in peeked], [700, -200, -1100, -2000, None])
    transcript.expect("name", peeked[0].name.startswith("b'user-3:"), True)
    transcript.expect("leak", bucket.leak(now_ms), 2)
    transcript.expect("count", bucket.count(), 2)
    transcript.expect("flush", bucket.flush(), 1)
    transcript.expect("empty", [bucket.count(), bucket.peek(0)], [0, None])


def test_waits_its_turn(client, transcript):
    with Limiter(bucket_of(client, "pyrate:turn", Rate(2, 500))) as limiter:
        started = time.monotonic()
        transcript.expect("acquired", [limiter.try_acquire("user") for _ in range(6)], [True] * 6)
        transcript.observe("in all", between(time.monotonic() - started, 0.9, 30))
        transcript.expect("gives up", limiter.try_acquire("user", timeout=0.05), False)


def test_a_bucket_for_each_user(client, transcript):
    class Users(BucketFactory):
        def __init__(self):
            self.buckets = {}

        def wrap_item(self, name, weight=1):
            return RateItem(name, time.time_ns() // 1_000_000, weight=weight)

        def get(self, item):
            if item.name not in self.buckets:
                self.buckets[item.name] = bucket_of(client, f"pyrate:users:{item.name}", Rate(1, Duration.MINUTE))
                self.schedule_leak(self.buckets[item.name])
            return self.buckets[item.name]

    with Limiter(Users()) as limiter:
        transcript.expect("acquired", acquired(limiter, 2, "ann") + acquired(limiter, 2, "bob"), [True, False] * 2)
    keys = [key.decode() for key in sorted(client.keys("pyrate:users:*"))]
    transcript.expect("keys", keys, ["pyrate:users:ann", "pyrate:users:bob"])
    transcript.expect("type", client.type("pyrate:users:ann").decode(), "zset")


def test_many_at_once(client, transcript):
    buckets = [bucket_of(client, "pyrate:at-once", Rate(50, Duration.MINUTE)) for _ in range(8)]
    puts = at_once(8, 20, lambda: buckets[0].put(RateItem("user", buckets[0].now())))
    # Each item carries the time of its own client, so one with an earlier time may not see a later one: up to the number
    # of threads may slip in. The server's part is to run one script after the other.
    transcript.observe("allowed", between(puts.count(True), 50, 58))


def test_asynchronous(transcript):
    async def run():
        client = redis.asyncio.Redis(host=HOST, port=PORT)
        bucket = await RedisBucket.init([Rate(3, Duration.MINUTE)], client, "pyrate:async")
        limiter = Limiter(bucket)
        acquired = [await limiter.try_acquire_async("user", blocking=False) for _ in range(4)]
        count = await bucket.count()
        limiter.close()
        await client.aclose()
        return acquired, count

    acquired, count = asyncio.run(run())
    transcript.expect("acquired", acquired, [True, True, True, False])
    transcript.expect("count", count, 3)


def test_the_scripts_are_gone(client, transcript):
    bucket = bucket_of(client, "pyrate:flushed", Rate(3, Duration.MINUTE))
    assert bucket.put(RateItem("user", bucket.now()))
    client.script_flush()
    # It loads its script once and has no way back.
    with pytest.raises(NoScriptError) as error:
        bucket.put(RateItem("user", bucket.now()))
    transcript.expect("error", str(error.value), "No matching script. Please use EVAL.")
    again = bucket_of(client, "pyrate:flushed", Rate(3, Duration.MINUTE))
    transcript.expect("a new one", [again.put(RateItem("user", again.now())), again.count()], [True, 2])


def test_the_server_is_killed(client, transcript):
    bucket_of(client, "pyrate:restart", Rate(1, Duration.MINUTE)).put(RateItem("user", time.time_ns() // 1_000_000))
    restart_server()
    bucket = eventually(lambda: bucket_of(client, "pyrate:restart", Rate(1, Duration.MINUTE)))
    puts = [bucket.put(RateItem("user", bucket.now())) for _ in range(2)]
    transcript.expect("afterwards", puts, [True, False])
