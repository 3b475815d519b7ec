"""redis-benchmark against a node: it must run to its end, see no error, and have its commands counted once each."""

import csv
import io

import pytest
from node_under_test import HOST, PASSWORD, PASSWORD_PORT, PORT, new_key, restart_node, run

REQUESTS = 5000


def benchmark(*args, port=PORT):
    code, out, err = run("redis-benchmark", "-h", HOST, "-p", port, "-n", str(REQUESTS), "--csv", *args)
    rows = list(csv.DictReader(io.StringIO(out[out.index('"test"'):]))) if '"test"' in out else []
    return code, rows, out + err


def remaining(key, **options):
    code, out, err = run("redis-cli", "-h", HOST, "-p", options.get("port", PORT), *options.get("args", ()),
                         "CL.THROTTLE", key, "99999", "100000", "2592000", "0")
    assert code == 0, out + err
    return int(out.splitlines()[2])


@pytest.mark.parametrize("pipeline", ["1", "32"])
@pytest.mark.parametrize("threads", [(), ("--threads", "2")], ids=["one-thread", "two-threads"])
@pytest.mark.parametrize("protocol", [(), ("-3",)], ids=["resp2", "resp3"])
def test_every_request_is_answered_and_counted(pipeline, threads, protocol):
    key = new_key("benchmark")
    command = ("CL.THROTTLE", key, "99999", "100000", "2592000")
    code, rows, shown = benchmark("-c", "20", "-P", pipeline, *threads, *protocol, *command)
    assert code == 0, shown
    assert "ERR" not in shown
    assert len(rows) == 1 and float(rows[0]["rps"]) > 0, shown
    # Rounded up to whole pipelines, one for each of the clients at most.
    extra = 20 * int(pipeline)
    used = 100_000 - remaining(key)
    assert REQUESTS <= used <= REQUESTS + extra


def test_rl_check_over_many_keys():
    code, rows, shown = benchmark("-c", "20", "-P", "16", "-r", "1000", "RL.CHECK", new_key("many") + ":__rand_int__",
                                  "LIMIT", "100", "PER", "1m")
    assert code == 0 and rows, shown
    assert "ERR" not in shown


def test_the_ping_tests():
    code, rows, shown = benchmark("-t", "ping")
    assert code == 0, shown
    assert [row["test"] for row in rows] == ["PING_INLINE", "PING_MBULK"]


def test_an_error_reply_is_shown():
    _, _, shown = benchmark("-c", "1", "RL.CHECK", new_key("error"), "LIMIT", "0", "PER", "1m")
    assert "ERR" in shown


def test_runs_again_after_the_node_was_killed():
    assert benchmark("-c", "5", "PING")[0] == 0
    restart_node()
    assert benchmark("-c", "5", "PING")[0] == 0


def test_a_password_is_asked_for():
    key = new_key("password")
    command = ("CL.THROTTLE", key, "99999", "100000", "2592000")
    code, rows, shown = benchmark("-a", PASSWORD, *command, port=PASSWORD_PORT)
    assert code == 0 and rows, shown
    assert "NOAUTH" in benchmark(*command, port=PASSWORD_PORT)[2]
    used = 100_000 - remaining(key, port=PASSWORD_PORT, args=("--no-auth-warning", "-a", PASSWORD))
    assert REQUESTS <= used <= REQUESTS + 50
