"""limits: every strategy, blocking and asynchronous. Run by tests/run.py."""

import asyncio
import threading
import time

import pytest
from limits import RateLimitItemPerMinute, RateLimitItemPerSecond, parse, parse_many, storage, strategies
from limits.aio import strategies as aio_strategies
from server_under_test import URL, at_once, between, eventually, restart_server

STRATEGIES = {
    "fixed-window": (strategies.FixedWindowRateLimiter, aio_strategies.FixedWindowRateLimiter),
    "moving-window": (strategies.MovingWindowRateLimiter, aio_strategies.MovingWindowRateLimiter),
    "sliding-window-counter": (
        strategies.SlidingWindowCounterRateLimiter,
        aio_strategies.SlidingWindowCounterRateLimiter,
    ),
}
CLIENTS = ("redis-py", "redis-py asyncio", "coredis")


class Blocking:
    """An asynchronous limiter behind the interface of a blocking one, with an event loop of its own."""

    def __init__(self, limiter):
        self._limiter = limiter
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=20)

    def __getattr__(self, name):
        method = getattr(self._limiter, name)
        return lambda *args, **options: self.run(method(*args, **options))


def limiter_of(client, name):
    blocking, asynchronous = STRATEGIES[name]
    prefix = f"{client}:{name}"
    if client == "redis-py":
        limiter = blocking(storage.storage_from_string(URL, key_prefix=prefix))
    else:
        implementation = "coredis" if client == "coredis" else "redispy"
        store = storage.storage_from_string(f"async+{URL}", implementation=implementation, key_prefix=prefix)
        limiter = Blocking(asynchronous(store))
    limiter.prefix, limiter.strategy = prefix, name
    return limiter


@pytest.fixture(params=[(client, name) for client in CLIENTS for name in STRATEGIES], ids=lambda param: " ".join(param))
def limiter(request):
    return limiter_of(*request.param)


def test_hits_up_to_the_limit(limiter, transcript):
    item = RateLimitItemPerMinute(3)
    transcript.expect("hits", [limiter.hit(item, "hits", "user") for _ in range(5)], [True, True, True, False, False])
    transcript.expect("test", limiter.test(item, "hits", "user"), False)
    transcript.expect("other user", limiter.hit(item, "hits", "other"), True)


def test_what_is_left(limiter, transcript):
    item = RateLimitItemPerMinute(5)
    before = limiter.get_window_stats(item, "left")
    transcript.expect("before", before.remaining, 5)
    left = []
    for _ in range(3):
        limiter.hit(item, "left")
        left.append(limiter.get_window_stats(item, "left").remaining)
    transcript.expect("left", left, [4, 3, 2])
    reset = limiter.get_window_stats(item, "left").reset_time - time.time()
    # The counter of a sliding window is reset step by step; its first step is a part of the window.
    transcript.observe("reset", between(reset, -1, 61) if "counter" in limiter.strategy else between(reset, 56, 61))


@pytest.mark.parametrize("client", CLIENTS)
def test_the_window_ends(client, transcript):
    limiters = [limiter_of(client, name) for name in STRATEGIES]
    item = RateLimitItemPerSecond(2)
    for limiter in limiters:
        transcript.expect(limiter.strategy, [limiter.hit(item, "end") for _ in range(3)], [True, True, False])
    # Two windows, since the counter of a sliding window weighs the one before.
    time.sleep(2.2)
    transcript.expect("afterwards", [limiter.hit(item, "end") for limiter in limiters], [True, True, True])


def test_a_cost(limiter, transcript):
    item = RateLimitItemPerMinute(10)
    hits = [limiter.hit(item, "cost", cost=cost) for cost in (4, 4, 4, 2)]
    # The fixed window counts what it refuses, too.
    expected = [True, True, False, False] if limiter.strategy == "fixed-window" else [True, True, False, True]
    transcript.expect("hits", hits, expected)
    transcript.expect("never fits", limiter.hit(item, "cost-never", cost=11), False)


def test_a_cost_of_thousands(limiter, transcript):
    item = RateLimitItemPerMinute(9000)
    transcript.expect("hits", [limiter.hit(item, "large", cost=4400) for _ in range(3)], [True, True, False])
    remaining = limiter.get_window_stats(item, "large").remaining
    transcript.expect("left", remaining, 0 if limiter.strategy == "fixed-window" else 200)


def test_cleared(limiter, transcript):
    item = RateLimitItemPerMinute(1)
    transcript.expect("hits", [limiter.hit(item, "clear"), limiter.hit(item, "clear")], [True, False])
    limiter.clear(item, "clear")
    transcript.expect("afterwards", limiter.hit(item, "clear"), True)


def test_its_keys(limiter, transcript, direct):
    limiter.hit(RateLimitItemPerMinute(5), "keys", "user")
    keys = sorted(direct.keys(f"{limiter.prefix}*keys*"))
    transcript.observe("keys", keys)
    assert len(keys) == 1
    transcript.expect("type", direct.type(keys[0]), "list" if limiter.strategy == "moving-window" else "string")
    doubled = 2 if "counter" in limiter.strategy else 1
    transcript.observe("ttl", between(direct.ttl(keys[0]), 58 * doubled, 60 * doubled))


def test_many_at_once(limiter, transcript):
    item = parse("50/minute")
    hits = at_once(8, 20, lambda: limiter.hit(item, "at-once"))
    transcript.expect("allowed", hits.count(True), 50)


def test_the_scripts_are_gone(limiter, transcript, direct):
    item = RateLimitItemPerMinute(2)
    limiter.hit(item, "flushed")
    direct.script_flush()
    transcript.expect("hits", [limiter.hit(item, "flushed"), limiter.hit(item, "flushed")], [True, False])


@pytest.mark.parametrize("limiter", [(client, "moving-window") for client in CLIENTS], indirect=True, ids=CLIENTS)
def test_the_server_is_killed(limiter, transcript):
    item = RateLimitItemPerMinute(1)
    limiter.hit(item, "restart")
    restart_server()
    transcript.expect("other", eventually(lambda: limiter.hit(item, "restart-other")), True)
    transcript.expect("hits", [limiter.hit(item, "restart"), limiter.hit(item, "restart")], [True, False])


def test_the_moving_window_moves(transcript):
    limiter = strategies.MovingWindowRateLimiter(storage.storage_from_string(URL))
    item = parse("2 per 2 seconds")
    assert limiter.hit(item, "moves")
    time.sleep(1.2)
    hits = [limiter.hit(item, "moves"), limiter.hit(item, "moves")]
    time.sleep(1.0)
    hits += [limiter.hit(item, "moves"), limiter.hit(item, "moves")]
    transcript.expect("hits", hits, [True, False, True, False])


def test_the_sliding_counter_weighs_the_window_before(transcript):
    limiter = strategies.SlidingWindowCounterRateLimiter(storage.storage_from_string(URL))
    item = parse("10 per 2 seconds")
    assert all(limiter.hit(item, "slides") for _ in range(10))
    time.sleep(2.5)
    # A quarter of the window is over: about three quarters of the ten still count.
    allowed = [limiter.hit(item, "slides") for _ in range(10)].count(True)
    transcript.observe("allowed", between(allowed, 2, 5))


def test_several_limits(transcript):
    limiter = strategies.FixedWindowRateLimiter(storage.storage_from_string(URL, key_prefix="several"))
    items = parse_many("3/minute; 5/hour")
    hits = [all([limiter.hit(item, "user") for item in items]) for _ in range(4)]
    transcript.expect("hits", hits, [True, True, True, False])


def test_the_storage(transcript, direct):
    store = storage.storage_from_string(URL, key_prefix="storage")
    transcript.expect("check", store.check(), True)
    transcript.expect("incr", [store.incr("counter", 30), store.incr("counter", 30, amount=4)], [1, 5])
    transcript.expect("get", store.get("counter"), 5)
    transcript.observe("expiry", between(store.get_expiry("counter") - time.time(), 28, 31))
    store.incr("another", 30)
    direct.set("not-ours", 1)
    transcript.expect("reset", store.reset(), 2)
    transcript.expect("left", [store.get("counter"), direct.get("not-ours")], [0, "1"])
