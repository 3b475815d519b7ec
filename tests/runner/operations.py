"""The tests of docker-compose.yml, in tests/compose."""

from .environments import CACHE, ROOT, Missing
from .process import Test

PYTHON = CACHE / "python" / "compose" / "bin" / "python"
# Name of the test -> the environments that it needs.
TESTS = {
    "test_a_compose_program_takes_the_file": ("compose",),
    "test_scenario_its_nodes_act_as_one_under_its_load": ("compose", "redis-cli", "redis-benchmark"),
}


def names():
    return [_name(test) for test in TESTS]


def _name(test):
    return f"compose/{test.removeprefix('test_')}"


def prepare(environments, wanted):
    """Starts to set up what the tests named in `wanted` need."""
    for test, needs in TESTS.items():
        if _name(test) in wanted:
            for environment in needs:
                environments.ask(environment)


def list_tests(environments, wanted, binary):
    return [_test(test, needs, environments, binary) for test, needs in TESTS.items() if _name(test) in wanted]


def _test(name, needs, environments, binary):
    argv = [str(PYTHON), "-m", "unittest", "-v", f"test_compose.Compose.{name}"]
    test = Test(_name(name), argv, ROOT / "tests" / "compose")
    try:
        for environment in needs:
            test.env.update(environments.get(environment))
    except Missing as error:
        test.missing = str(error)
    test.env["BINARY"] = str(binary)
    return test
