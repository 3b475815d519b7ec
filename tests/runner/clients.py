"""The suites in tests/clients: each real client library against a node of its own."""

import functools
from dataclasses import dataclass, field

from .environments import CACHE, CLIENTS, Missing
from .node import nodes_for_a_suite
from .process import Test

WORKER_COUNTS = (1, 2)


@dataclass
class Suite:
    name: str
    environment: str
    argv: list[str]
    directory: str
    env: dict[str, str] = field(default_factory=dict)
    # Environments beyond the first, for what runs the suite itself.
    also: tuple[str, ...] = ()


def _pytest(venv, name):
    return [str(CACHE / "python" / venv / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", name]


def _node_test(name):
    return ["node", "--test", "--test-reporter=spec", name]


def _junit(class_name):
    console = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{CACHE / 'java' / 'lib'}/*:{CACHE / 'java' / 'classes'}"]
    return [*console, "org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner",
            "--details=tree", "--disable-ansi-colors", "--fail-if-no-tests", f"--select-class={class_name}"]


SUITES = [
    Suite("redis-cli", "redis-cli", _pytest("redis-py-8", "test_redis_cli.py"), "cli", also=("redis-py-8",)),
    Suite("redis-benchmark", "redis-benchmark", _pytest("redis-py-8", "test_redis_benchmark.py"), "cli",
          also=("redis-py-8",)),
    Suite("redis-py-8", "redis-py-8", _pytest("redis-py-8", "test_redis_py.py"), "python"),
    Suite("redis-py-5", "redis-py-5", _pytest("redis-py-5", "test_redis_py.py"), "python"),
    Suite("ioredis-5", "node", _node_test("ioredis.test.cjs"), "node", {"CLIENT_PACKAGE": "ioredis-5"}),
    Suite("ioredis-6", "node", _node_test("ioredis.test.cjs"), "node", {"CLIENT_PACKAGE": "ioredis-6"}),
    Suite("node-redis-4", "node", _node_test("node-redis.test.cjs"), "node", {"CLIENT_PACKAGE": "node-redis-4"}),
    Suite("node-redis-5", "node", _node_test("node-redis.test.cjs"), "node", {"CLIENT_PACKAGE": "node-redis-5"}),
    Suite("node-redis-6", "node", _node_test("node-redis.test.cjs"), "node", {"CLIENT_PACKAGE": "node-redis-6"}),
    Suite("go-redis-9", "go", [str(CACHE / "go" / "clients.test"), "-test.v"], "go"),
    Suite("jedis", "java", _junit("JedisTest"), "java"),
    Suite("lettuce", "java", _junit("LettuceTest"), "java"),
]


def names():
    return [_name(suite, workers) for suite in SUITES for workers in WORKER_COUNTS]


def prepare(environments, wanted):
    """Starts to set up what the suites named in `wanted` need."""
    for suite in SUITES:
        if any(_name(suite, workers) in wanted for workers in WORKER_COUNTS):
            for environment in (suite.environment, *suite.also):
                environments.ask(environment)


def list_tests(environments, wanted, binary):
    tests = []
    for suite in SUITES:
        for workers in WORKER_COUNTS:
            name = _name(suite, workers)
            if name in wanted:
                tests.append(_test(suite, name, workers, environments, binary))
    return tests


def _name(suite, workers):
    return f"clients/{suite.name} workers={workers}"


def _test(suite, name, workers, environments, binary):
    test = Test(name, suite.argv, CLIENTS / suite.directory)
    try:
        for environment in (suite.environment, *suite.also):
            test.env.update(environments.get(environment))
    except Missing as error:
        test.missing = str(error)
    test.env.update(suite.env)
    test.around = functools.partial(nodes_for_a_suite, binary, ["--workers", str(workers)])
    return test
