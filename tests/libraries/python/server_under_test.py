"""The server under test, as tests/run.py announces it in SERVER_* variables, and the transcript of what a library said."""

import json
import os
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

HOST = os.environ["SERVER_HOST"]
PORT = int(os.environ["SERVER_PORT"])
URL = f"redis://{HOST}:{PORT}"

RECOVERY_SECONDS_MAX = 10


class Transcript:
    def __init__(self, test):
        self._test = test

    def observe(self, what, value):
        """Writes an observation down: the value must be the same on every server, so times are ranged with `between`."""
        with open(os.environ["TRANSCRIPT"], "a", encoding="utf-8") as file:
            file.write(f"{self._test}: {what} = {json.dumps(value)}\n")

    def expect(self, what, value, expected):
        """Writes it down and asserts that it is as expected."""
        self.observe(what, value)
        assert value == expected, what


@pytest.fixture
def transcript(request):
    return Transcript(request.node.name)


@pytest.fixture
def direct():
    """A connection of ours, to look at the keys."""
    with redis.Redis(host=HOST, port=PORT, decode_responses=True) as client:
        yield client


def between(value, low, high):
    """Asserts that a figure is in its range, and is the range."""
    assert low <= value <= high, f"{value} is not between {low} and {high}"
    return f"{low}..{high}"


def restart_server():
    """Kills the server with SIGKILL; returns once it serves again on the same port, with nothing in it."""
    request = urllib.request.Request(os.environ["SERVER_CONTROL"] + "/restart", method="POST")
    urllib.request.urlopen(request, timeout=20).close()


def eventually(call):
    """Calls until a call succeeds, as a service does whose requests go on arriving."""
    deadline = time.monotonic() + RECOVERY_SECONDS_MAX
    while True:
        try:
            return call()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def at_once(threads, calls, call):
    """What `calls` calls by `threads` threads return that all start together."""
    barrier = threading.Barrier(threads)

    def run(_):
        barrier.wait()
        return [call() for _ in range(calls)]

    with ThreadPoolExecutor(max_workers=threads) as pool:
        return [result for results in pool.map(run, range(threads)) for result in results]


def away_from_the_end(period_seconds, margin_seconds):
    """For limiters whose windows end at multiples of the period: waits if the end is near."""
    left = period_seconds - time.time() % period_seconds
    if left < margin_seconds:
        time.sleep(left + 0.01)
