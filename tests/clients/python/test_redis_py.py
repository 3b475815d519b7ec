"""redis-py against a node, in both protocols. Run by tests/run.py, which starts the node and sets the TOLLGATE_* variables."""

import itertools
import os
import time
import urllib.request

import pytest
import redis
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry

HOST = os.environ["TOLLGATE_HOST"]
PORT = int(os.environ["TOLLGATE_PORT"])
FIELDS = ["allowed", "limit", "remaining", "retry_after_ms", "reset_at_ms", "source"]
_serial = itertools.count()


def new_key(label):
    return f"py:{label}:{os.getpid()}:{next(_serial)}"


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request):
    return request.param


@pytest.fixture
def client(protocol):
    with redis.Redis(host=HOST, port=PORT, protocol=protocol, decode_responses=True) as client:
        yield client


def fields(reply, protocol):
    """The reply's fields by name, whichever form the protocol gives them."""
    if protocol == 3:
        assert list(reply) == FIELDS
        return reply
    assert len(reply) == len(FIELDS)
    return dict(zip(FIELDS, reply))


def test_connects_with_a_name_and_a_database(protocol):
    key = new_key("database")
    options = {"host": HOST, "port": PORT, "protocol": protocol, "decode_responses": True}
    with redis.Redis(db=3, client_name="checkout", **options) as third, redis.Redis(**options) as first:
        assert third.ping()
        assert third.client_getname() == "checkout"
        third.execute_command("RL.CHECK", key, "LIMIT", 5, "PER", "1m")
        assert third.exists(key) == 1
        assert first.exists(key) == 0


def test_rl_check_allows_five_of_seven(client, protocol):
    key = new_key("check")
    replies = [
        fields(client.execute_command("RL.CHECK", key, "LIMIT", 5, "PER", "1m"), protocol) for _ in range(7)
    ]
    now_ms = time.time() * 1000
    assert [reply["allowed"] for reply in replies] == [1, 1, 1, 1, 1, 0, 0]
    assert [reply["remaining"] for reply in replies] == [4, 3, 2, 1, 0, 0, 0]
    for reply in replies:
        assert all(type(reply[name]) is int for name in FIELDS[:-1])
        assert reply["limit"] == 5
        assert reply["source"] == "owner"
        assert now_ms < reply["reset_at_ms"] < now_ms + 61_000
        if reply["allowed"]:
            assert reply["retry_after_ms"] == 0
        else:
            assert 0 < reply["retry_after_ms"] <= 12_000


def test_cl_throttle_allows_five_of_seven(client):
    key = new_key("throttle")
    replies = [client.execute_command("CL.THROTTLE", key, 4, 5, 60) for _ in range(7)]
    assert [reply[0] for reply in replies] == [0, 0, 0, 0, 0, 1, 1]
    assert [reply[1] for reply in replies] == [5] * 7
    assert [reply[2] for reply in replies] == [4, 3, 2, 1, 0, 0, 0]
    assert [reply[3] for reply in replies[:5]] == [-1] * 5
    assert all(11 <= reply[3] <= 12 for reply in replies[5:])
    assert all(0 < reply[4] <= 60 for reply in replies)


def test_a_bucket_is_a_key(client):
    key = new_key("bucket")
    client.execute_command("RL.CHECK", key, "LIMIT", 5, "PER", "1m")
    assert client.exists(key) == 1
    assert client.type(key) == "bucket"
    assert 0 < client.ttl(key) <= 2 * 3600
    assert list(client.scan_iter(match=f"{key}*")) == [key]
    assert client.delete(key) == 1
    assert client.exists(key) == 0
    assert client.type(key) == "none"
    assert client.ttl(key) == -2


def test_a_pipeline_is_answered_in_order(client, protocol):
    key = new_key("pipeline")
    pipeline = client.pipeline(transaction=False)
    for _ in range(1000):
        pipeline.execute_command("RL.CHECK", key, "LIMIT", 1000, "PER", "30d")
    replies = [fields(reply, protocol) for reply in pipeline.execute()]
    assert [reply["remaining"] for reply in replies] == list(range(999, -1, -1))


def test_an_error_is_a_response_error(client):
    key = new_key("error")
    with pytest.raises(redis.ResponseError):
        client.execute_command("RL.CHECK", key, "LIMIT", 0, "PER", "1m")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("RL.NO-SUCH-COMMAND", key)
    pipeline = client.pipeline(transaction=False)
    pipeline.execute_command("RL.CHECK", key, "LIMIT", 5, "PER", "1m")
    pipeline.execute_command("RL.CHECK", key, "LIMIT", "five", "PER", "1m")
    pipeline.execute_command("RL.CHECK", key, "LIMIT", 5, "PER", "1m")
    first, second, third = pipeline.execute(raise_on_error=False)
    assert isinstance(second, redis.ResponseError)
    assert not isinstance(first, Exception) and not isinstance(third, Exception)


def test_recovers_when_the_node_is_killed_and_started_again(protocol):
    key = new_key("reconnect")
    retry = Retry(ConstantBackoff(0.05), 100)
    options = {"retry": retry, "retry_on_error": [redis.ConnectionError]}
    with redis.Redis(host=HOST, port=PORT, protocol=protocol, **options) as client:
        client.execute_command("RL.CHECK", key, "LIMIT", 5, "PER", "1m")
        restart_node()
        for _ in range(3):
            client.execute_command("RL.CHECK", key, "LIMIT", 5, "PER", "1m")


def test_a_password_is_asked_for(protocol):
    options = {"host": HOST, "port": int(os.environ["TOLLGATE_PASSWORD_PORT"]), "protocol": protocol}
    key = new_key("password")
    with redis.Redis(password=os.environ["TOLLGATE_PASSWORD"], **options) as client:
        assert client.execute_command("RL.CHECK", key, "LIMIT", 5, "PER", "1m")
    options["retry"] = Retry(NoBackoff(), 0)
    with redis.Redis(password="wrong", **options) as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    with redis.Redis(**options) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def restart_node():
    request = urllib.request.Request(os.environ["TOLLGATE_CONTROL"] + "/restart", method="POST")
    urllib.request.urlopen(request, timeout=20).close()
