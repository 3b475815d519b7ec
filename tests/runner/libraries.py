"""The suites in tests/libraries: rate limiting libraries that were written for Redis.

A suite runs on a redis-server and on a node, and writes down what the library said to its user, an observation a line. It
fails where one of its assertions fails on either, and where the two transcripts differ.
"""

import contextlib
import difflib
import functools
import json
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from . import process
from .environments import CACHE, LIBRARIES, Missing
from .node import Node, serve_control
from .process import Test
from .redis import RedisServer

WORKER_COUNTS = (1, 2)
DIFFERENCE_LINES_MAX = 40

@dataclass
class Suite:
    name: str
    environment: str
    argv: list[str]
    directory: str
    env: dict[str, str] = field(default_factory=dict)
    # Where Tollgate does otherwise on purpose: "test: what" -> (value on redis-server, value on Tollgate).
    differences: dict[str, tuple] = field(default_factory=dict)


def _node(name, client, differences=None):
    argv = ["node", "--test", "--test-reporter=spec", f"{name}.test.cjs"]
    # A client's own suite goes by the version alone.
    label = f"node/{client}" if client.startswith(name) else f"node/{name}-on-{client}"
    return Suite(label, "libraries-node", argv, "node", {"CLIENT_PACKAGE": client}, differences or {})


def _python(name):
    python = str(CACHE / "libraries" / "python" / "bin" / "python")
    argv = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{name}.py"]
    return Suite(f"python/{name.replace('_', '-')}", "libraries-python", argv, "python")


def _go(name, test):
    argv = [str(CACHE / "libraries" / "go" / "libraries.test"), "-test.v", f"-test.run=^{test}"]
    return Suite(f"go/{name}", "libraries-go", argv, "go")


def _java(name, class_name):
    directory = CACHE / "libraries" / "java"
    argv = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{directory / 'lib'}/*:{directory / 'classes'}",
            "org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=tree",
            "--disable-ansi-colors", "--fail-if-no-tests", f"--select-class={class_name}"]
    return Suite(f"java/{name}", "libraries-java", argv, "java")


# What error_reply is given without a blank is the whole error, as before Redis 7: that is what bottleneck compares.
ERROR_REPLY = {
    "bottleneck > the loss of its settings is noticed: answer": ("ERR SETTINGS_KEY_NOT_FOUND", 7),
    "bottleneck > jobs weigh, and too heavy ones are refused: refused": (
        "ERR OVERWEIGHT:5:4",
        "Impossible to add a job having a weight of 5 to a limiter having a maxConcurrent setting of 4",
    ),
}


def _valkey(get_of_none, get, more=()):
    """What the classes for Valkey come to. They call `server.call`, which redis-server 7 does not have."""
    window = "points are consumed, then refused, then there again"
    change = "get, penalty, reward and delete"
    spent = [[n > 3, n, max(3 - n, 0), "0..30000"] for n in range(1, 6)]
    here = {
        f"{window}: answers": (["no server"] * 5, spent),
        f"{window}: after the window": ("no server", [False, 2, 1, "0..30000"]),
        f"{change}: consumed": ("no server", [False, 4, 6, "0..30000"]),
        f"{change}: penalty": ("no server", [False, 7, 3, "0..30000"]),
        f"{change}: reward": ("no server", [False, 2, 8, "0..30000"]),
        f"{change}: get of none": (get_of_none, None),
        f"{change}: get": (get, [False, 2, 8, "0..30000"]),
        f"{change}: value": (None, "2"),
        f"{change}: delete": (False, True),
        "many at once get no more than there is: allowed": (0, 50),
        **dict(more),
    }
    return {f"rate-limiter-flexible-valkey > {what}": values for what, values in here.items()}


SUITES = [
    _node("rate-limiter-flexible", "ioredis-5"),
    _node("rate-limiter-flexible", "ioredis-6"),
    _node("rate-limiter-flexible", "node-redis-6"),
    _node("rate-limiter-flexible-valkey", "iovalkey", _valkey(None, None)),
    _node("rate-limiter-flexible-valkey", "valkey-glide", _valkey("no server", "no server", {
        "its libraries are there, and go: libraries": ([], ["ratelimiter_get", "ratelimiterflexible"]),
    })),
    _node("rate-limit-redis", "ioredis-5"),
    _node("rate-limit-redis", "node-redis-6"),
    _node("fastify-rate-limit", "ioredis-5"),
    _node("fastify-rate-limit", "ioredis-6"),
    _node("bottleneck", "ioredis-5", ERROR_REPLY),
    _node("bottleneck", "ioredis-6", ERROR_REPLY),
    _node("bottleneck", "node-redis-3", ERROR_REPLY),
    _node("ioredis", "ioredis-5"),
    _node("ioredis", "ioredis-6"),
    _node("node-redis", "node-redis-6"),
    _python("limits"),
    _python("flask_limiter"),
    _python("pyrate_limiter"),
    _python("throttled_py"),
    _python("django_redis"),
    _go("redis-rate", "TestRedisRate"),
    _go("throttled", "TestThrottled"),
    _java("bucket4j", "Bucket4jTest"),
    _java("redisson", "RedissonRateLimiterTest"),
    _java("spring-cloud-gateway", "SpringCloudGatewayTest"),
]

# The suites that a run without words includes: those whose commands Tollgate has.
ENABLED = {suite.name for suite in SUITES}


def names(is_wanted):
    """Those that a run includes: of suites that are not enabled, only what a word beginning with `library/` asks for."""
    return {
        _name(suite, workers)
        for suite in SUITES
        for workers in WORKER_COUNTS
        if is_wanted(_name(suite, workers), suite.name in ENABLED)
    }


def prepare(environments, wanted):
    for suite in SUITES:
        if any(_name(suite, workers) in wanted for workers in WORKER_COUNTS):
            environments.ask(suite.environment)
            environments.ask("redis-server")


def list_tests(environments, wanted, binary):
    """The wanted tests, on redis-server and on a node."""
    tests = []
    for suite in SUITES:
        reference = _Reference(suite, environments)
        for workers in WORKER_COUNTS:
            if _name(suite, workers) in wanted:
                test = _test(suite, _name(suite, workers), environments)
                test.around = functools.partial(_beside_redis, suite, reference, binary, workers)
                tests.append(test)
    return tests


def redis_names(is_wanted):
    """The suites whose name has one of the words."""
    return [f"library/{suite.name}" for suite in SUITES if is_wanted(f"library/{suite.name}")]


def list_redis_tests(environments, wanted):
    """The wanted suites, on redis-server alone."""
    suites = [suite for suite in SUITES if f"library/{suite.name}" in wanted]
    for suite in suites:
        environments.ask(suite.environment)
        environments.ask("redis-server")
    tests = []
    for suite in suites:
        test = _test(suite, f"library/{suite.name} redis-server", environments)
        test.around = _printing_transcript
        tests.append(test)
    return tests


def _name(suite, workers):
    return f"library/{suite.name} workers={workers}"


def _test(suite, name, environments):
    test = Test(name, suite.argv, LIBRARIES / suite.directory)
    try:
        test.env.update(environments.get("redis-server"))
        test.env.update(environments.get(suite.environment))
    except Missing as error:
        test.missing = str(error)
    test.env.update(suite.env)
    return test


class _Reference:
    """What a suite writes down on a redis-server: run once, by the first test that compares with it."""

    def __init__(self, suite, environments):
        self._suite = suite
        self._environments = environments
        self._lock = threading.Lock()
        self._transcript = None

    def transcript(self):
        with self._lock:
            if self._transcript is None:
                self._transcript = self._run()
            return self._transcript

    def _run(self):
        test = _test(self._suite, f"library/{self._suite.name} redis-server", self._environments)
        with _transcript_file() as path:
            test.around = functools.partial(_serving, RedisServer, path)
            outcome = process.run(test)
            if outcome.verdict != "passed":
                raise RuntimeError(f"on redis-server: {outcome.reason}\n{outcome.output}")
            return read_transcript(path)


@contextlib.contextmanager
def _beside_redis(suite, reference, binary, workers):
    expected = with_differences(reference.transcript(), suite.differences)
    with _transcript_file() as path:
        with _serving(functools.partial(Node, binary, ["--workers", str(workers)]), path) as env:
            yield env
        difference = compare(expected, read_transcript(path))
        if difference:
            raise RuntimeError(f"it does not do as on redis-server:\n{difference}")


@contextlib.contextmanager
def _printing_transcript():
    with _transcript_file() as path, _serving(RedisServer, path) as env:
        yield env
        print("\n".join(read_transcript(path)), flush=True)


@contextlib.contextmanager
def _serving(make_server, transcript):
    """Starts a server and its control address; yields the environment that tells a suite of them."""
    server = make_server()
    control = None
    try:
        server.start()
        control = serve_control(server)
        yield {
            "SERVER_HOST": "127.0.0.1",
            "SERVER_PORT": str(server.port),
            "SERVER_CONTROL": f"http://127.0.0.1:{control.server_port}",
            "TRANSCRIPT": str(transcript),
        }
        server.check_it_ran_well()
    finally:
        if control is not None:
            control.shutdown()
            control.server_close()
        server.remove()


@contextlib.contextmanager
def _transcript_file():
    with tempfile.TemporaryDirectory(prefix="tollgate-transcript-") as directory:
        path = Path(directory) / "transcript"
        path.touch()
        yield path


def read_transcript(path):
    """Its lines, `test: what = JSON`. One that observed nothing would be the same everywhere, and is refused."""
    lines = path.read_text().splitlines()
    if not lines:
        raise RuntimeError("the suite wrote no transcript")
    for line in lines:
        json.loads(line.partition(" = ")[2])
    return lines


def with_differences(transcript, differences):
    """The transcript with the values that Tollgate has on purpose. A difference that redis-server does not show is refused."""
    expected = []
    unseen = dict(differences)
    for line in transcript:
        observation, _, value = line.partition(" = ")
        if observation in unseen:
            on_redis, on_tollgate = unseen.pop(observation)
            if json.loads(value) != on_redis:
                raise RuntimeError(f"on redis-server {observation} was to be {json.dumps(on_redis)}, but is {value}")
            line = f"{observation} = {json.dumps(on_tollgate)}"
        expected.append(line)
    if unseen:
        raise RuntimeError(f"nothing observes {', '.join(unseen)}")
    return expected


def compare(expected, found):
    """The lines that differ, or nothing."""
    if list(map(_parsed, expected)) == list(map(_parsed, found)):
        return ""
    lines = list(difflib.unified_diff(expected, found, "redis-server", "Tollgate", lineterm="", n=0))
    if len(lines) > DIFFERENCE_LINES_MAX:
        lines[DIFFERENCE_LINES_MAX:] = [f"[... {len(lines) - DIFFERENCE_LINES_MAX} more lines]"]
    return "\n".join(lines)


def _parsed(line):
    observation, _, value = line.partition(" = ")
    return observation, json.loads(value)
