"""throttled-py: every algorithm on its Redis store, blocking and asynchronous. Run by tests/run.py."""

import asyncio
import time
from datetime import timedelta

import pytest
from server_under_test import URL, at_once, away_from_the_end, between, eventually, restart_server
from throttled import RateLimiterType, RedisStore, Throttled, exceptions, per_duration, per_min
from throttled import asyncio as throttled_asyncio

ALGORITHMS = [algorithm.value for algorithm in RateLimiterType]
# The window algorithms count in windows of the clock; the others refill.
WINDOWS = ("fixed_window", "sliding_window")


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return request.param


def throttle(algorithm, quota, **options):
    return Throttled(using=algorithm, quota=quota, store=RedisStore(server=f"{URL}/0"), **options)


def test_the_algorithms(transcript):
    transcript.expect("names", sorted(ALGORITHMS), ["fixed_window", "gcra", "leaking_bucket", "sliding_window", "token_bucket"])


def test_up_to_the_limit(algorithm, transcript):
    away_from_the_end(60, 5)
    limiter = throttle(algorithm, per_min(4, burst=4))
    results = [limiter.limit("user") for _ in range(6)]
    transcript.expect("limited", [result.limited for result in results], [False] * 4 + [True] * 2)
    transcript.expect("limit", [result.state.limit for result in results], [4] * 6)
    transcript.expect("remaining", [result.state.remaining for result in results], [3, 2, 1, 0, 0, 0])
    transcript.expect("retry after", [result.state.retry_after > 0 for result in results], [False] * 4 + [True] * 2)
    between(results[5].state.retry_after, 0.1, 60)
    if algorithm not in WINDOWS:
        transcript.observe("retry", between(results[5].state.retry_after, 13, 15))
        transcript.observe("reset", between(results[3].state.reset_after, 58, 60))
    transcript.expect("other user", limiter.limit("other").limited, False)


def test_peek(algorithm, transcript):
    away_from_the_end(60, 5)
    limiter = throttle(algorithm, per_min(5, burst=5))
    limiter.limit("peek", cost=2)
    states = [limiter.peek("peek") for _ in range(2)]
    transcript.expect("remaining", [state.remaining for state in states], [3, 3])
    transcript.expect("nobody", limiter.peek("nobody").remaining, 5)


def test_a_cost(algorithm, transcript):
    away_from_the_end(60, 5)
    limiter = throttle(algorithm, per_min(10, burst=10))
    results = [limiter.limit("cost", cost=cost) for cost in (6, 4, 1)]
    transcript.expect("limited", [result.limited for result in results], [False, False, True])
    transcript.expect("never fits", limiter.limit("cost-never", cost=11).limited, True)


def test_allowed_again(algorithm, transcript):
    away_from_the_end(1, 0.3)
    limiter = throttle(algorithm, per_duration(timedelta(seconds=1), limit=2, burst=2))
    transcript.expect("limited", [limiter.limit("again").limited for _ in range(3)], [False, False, True])
    time.sleep(2.1)
    transcript.expect("afterwards", limiter.limit("again").limited, False)


def test_waits_its_turn(algorithm, transcript):
    away_from_the_end(1, 0.3)
    limiter = throttle(algorithm, per_duration(timedelta(seconds=1), limit=2, burst=2), timeout=3)
    started = time.monotonic()
    transcript.expect("limited", [limiter.limit("turn").limited for _ in range(3)], [False] * 3)
    transcript.observe("in all", between(time.monotonic() - started, 0.2, 30))


def test_its_keys(algorithm, transcript, direct):
    away_from_the_end(60, 5)
    throttle(algorithm, per_min(5, burst=5), key_prefix="shop").limit("keys")
    keys = direct.keys(f"shop:*{algorithm}:keys*")
    assert len(keys) == 1, keys
    # The windows have their number in the key.
    name = keys[0].rpartition(":period:")[0] or keys[0]
    transcript.observe("key", [name, direct.type(keys[0])])
    # Its leaking bucket sets the time to live first and the hash after it, so a new bucket has none.
    ttl = direct.ttl(keys[0])
    transcript.observe("ttl", ttl if algorithm == "leaking_bucket" else between(ttl, 1, 180))
    assert (ttl == -1) == (algorithm == "leaking_bucket")


def test_many_at_once(algorithm, transcript):
    away_from_the_end(60, 5)
    limiter = throttle(algorithm, per_duration(timedelta(hours=1), limit=40, burst=40))
    limited = at_once(8, 20, lambda: limiter.limit("at-once").limited)
    transcript.expect("allowed", limited.count(False), 40)


def test_asynchronous(algorithm, transcript):
    away_from_the_end(60, 5)

    async def run():
        limiter = throttled_asyncio.Throttled(
            using=algorithm,
            quota=throttled_asyncio.per_min(10, burst=10),
            store=throttled_asyncio.RedisStore(server=f"{URL}/0"),
        )
        results = await asyncio.gather(*(limiter.limit("async") for _ in range(25)))
        state = await limiter.peek("async")
        return [result.limited for result in results].count(False), state.remaining

    transcript.expect("allowed and left", asyncio.run(run()), (10, 0))


def test_the_scripts_are_gone(algorithm, transcript, direct):
    away_from_the_end(60, 5)
    limiter = throttle(algorithm, per_min(2, burst=2))
    limiter.limit("flushed")
    direct.script_flush()
    transcript.expect("limited", [limiter.limit("flushed").limited for _ in range(2)], [False, True])


def test_a_decorator(algorithm, transcript):
    away_from_the_end(60, 5)

    @throttle(algorithm, per_min(1, burst=1), key="decorated")
    def served():
        return "served"

    transcript.expect("first", served(), "served")
    with pytest.raises(exceptions.LimitedError) as error:
        served()
    transcript.expect("remaining", error.value.rate_limit_result.state.remaining, 0)


def test_the_server_is_killed(algorithm, transcript):
    away_from_the_end(60, 8)
    limiter = throttle(algorithm, per_min(1, burst=1))
    limiter.limit("restart")
    restart_server()
    eventually(lambda: limiter.limit("restart-other"))
    transcript.expect("afterwards", [limiter.limit("restart").limited for _ in range(2)], [False, True])
