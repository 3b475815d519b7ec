"""Django's cache on django-redis, and django-ratelimit over it. Run by tests/run.py."""

import time

import django
import pytest
from django.conf import settings
from server_under_test import URL, at_once, between, eventually, restart_server

settings.configure(
    ALLOWED_HOSTS=["testserver"],
    CACHES={
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"{URL}/1",
            "KEY_PREFIX": "shop",
            "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"},
        }
    },
    SILENCED_SYSTEM_CHECKS=["django_ratelimit.E003", "django_ratelimit.W001"],
    USE_TZ=True,
)
django.setup()

from django.core.cache import cache  # noqa: E402 - Django wants its settings first
from django.http import HttpResponse  # noqa: E402
from django.test import RequestFactory  # noqa: E402
from django_ratelimit.core import get_usage, is_ratelimited  # noqa: E402
from django_ratelimit.decorators import ratelimit  # noqa: E402
from django_ratelimit.exceptions import Ratelimited  # noqa: E402
from django_redis import get_redis_connection  # noqa: E402


def asked(path="/", user="10.0.0.1"):
    return RequestFactory().get(path, REMOTE_ADDR=user)


def test_values(transcript):
    cache.set("value", {"tokens": [1, 2.5, None], "name": "Grüße"}, timeout=60)
    transcript.expect("value", cache.get("value"), {"tokens": [1, 2.5, None], "name": "Grüße"})
    transcript.expect("missing", cache.get("missing", "default"), "default")
    transcript.expect("add", [cache.add("added", 1), cache.add("added", 2), cache.get("added")], [True, False, 1])
    transcript.expect("many", [cache.set_many({"a": 1, "b": 2}), cache.get_many(["a", "b", "c"])], [None, {"a": 1, "b": 2}])
    transcript.expect("delete", [cache.delete("a"), cache.delete("a"), cache.delete_many(["b", "value"])], [True, False, 2])
    transcript.expect("get or set", [cache.get_or_set("lazy", lambda: 7), cache.get("lazy")], [7, 7])


def test_counters(transcript):
    cache.set("counter", 5, timeout=60)
    transcript.expect("incr", [cache.incr("counter"), cache.incr("counter", 10), cache.decr("counter", 2)], [6, 16, 14])
    transcript.observe("ttl", between(cache.ttl("counter"), 58, 60))
    with pytest.raises(ValueError) as error:
        cache.incr("no-counter")
    transcript.observe("missing", str(error.value).split(":", 1)[0])
    cache.set("large", 2**63 - 1)
    transcript.expect("large", cache.incr("large"), 2**63)


def test_times_to_live(transcript):
    cache.set("ttl", 1, timeout=60)
    transcript.observe("ttl", between(cache.pttl("ttl"), 58_000, 60_000))
    transcript.expect("touch", [cache.touch("ttl", 100), between(cache.ttl("ttl"), 98, 100)], [True, "98..100"])
    transcript.expect("persist", [cache.persist("ttl"), cache.ttl("ttl")], [True, None])
    transcript.expect("expire", [cache.expire("ttl", 50), between(cache.ttl("ttl"), 48, 50)], [True, "48..50"])
    transcript.expect("missing", [cache.ttl("none"), cache.expire("none", 5), cache.touch("none")], [0, False, False])
    cache.set("short", 1, timeout=0.3)
    time.sleep(0.5)
    transcript.expect("gone", cache.get("short"), None)
    transcript.expect("zero", [cache.set("zero", 1, timeout=0), cache.get("zero")], [False, None])


def test_keys(transcript):
    cache.set_many({f"keys:{n}": n for n in range(30)})
    transcript.expect("keys", len(cache.keys("keys:*")), 30)
    transcript.expect("iterated", len(set(cache.iter_keys("keys:*", itersize=10))), 30)
    names = get_redis_connection("default").keys("shop:*keys:1")
    transcript.expect("names", [name.decode() for name in names], ["shop:1:keys:1"])
    transcript.expect("deleted", cache.delete_pattern("keys:1*"), 11)
    transcript.expect("left", len(cache.keys("keys:*")), 19)
    transcript.expect("has", ["keys:2" in cache, cache.has_key("keys:1")], [True, False])
    cache.clear()
    transcript.expect("cleared", cache.keys("*"), [])


def test_a_lock(transcript):
    with cache.lock("lock", timeout=10):
        transcript.expect("another", cache.lock("lock").acquire(blocking=False), False)
    transcript.expect("released", cache.lock("lock", timeout=5).acquire(blocking=False), True)


def test_ratelimit_up_to_the_rate(transcript):
    usages = [get_usage(asked(), group="rate", key="ip", rate="3/h", increment=True) for _ in range(5)]
    transcript.expect("count", [usage["count"] for usage in usages], [1, 2, 3, 4, 5])
    transcript.expect("limited", [usage["should_limit"] for usage in usages], [False, False, False, True, True])
    transcript.expect("limit", usages[0]["limit"], 3)
    transcript.observe("time left", between(usages[0]["time_left"], 0, 3600))
    transcript.expect("only looked at", get_usage(asked(), group="rate", key="ip", rate="3/h")["count"], 5)
    other = is_ratelimited(asked(user="10.0.0.2"), group="rate", key="ip", rate="3/h", increment=True)
    transcript.expect("other user", other, False)


def test_ratelimit_by_decorator(transcript):
    @ratelimit(key="ip", rate="2/h", group="view")
    def view(request):
        return HttpResponse("served")

    transcript.expect("served", [view(asked()).status_code for _ in range(2)], [200, 200])
    with pytest.raises(Ratelimited):
        view(asked())
    transcript.observe("keys", len(cache.keys("rl:*")))


def test_ratelimit_allows_again(transcript):
    def limited():
        return is_ratelimited(asked(), group="again", key="ip", rate="1/2s", increment=True)

    # Its windows end at multiples of the period, shifted by the key: so that all is in one, it starts with a new one.
    while not limited():
        time.sleep(0.02)
    while limited():
        time.sleep(0.02)
    transcript.expect("limited", [limited(), limited()], [True, True])
    time.sleep(2.5)
    transcript.expect("afterwards", limited(), False)


def test_ratelimit_many_at_once(transcript):
    def limited():
        return is_ratelimited(asked(), group="at-once", key="ip", rate="40/h", increment=True)

    transcript.expect("allowed", at_once(8, 15, limited).count(False), 40)


def test_the_scripts_are_gone_and_the_server_is_killed(transcript):
    cache.set("lost", 1)
    get_redis_connection("default").script_flush()
    transcript.expect("incr", cache.incr("lost"), 2)
    restart_server()
    transcript.expect("afterwards", eventually(lambda: cache.add("lost", 7)), True)
    transcript.expect("incr again", cache.incr("lost"), 8)
