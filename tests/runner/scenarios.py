"""The scenarios of tests/cluster_scenarios: what they need beside their binary, and the table that they write."""

import shutil

from .environments import CACHE, Missing

# In the names of all of them.
LABEL = "/cluster_scenarios "
TABLE = CACHE / "scenarios"
CLIENT = "redis-py-8"
TITLES = ("scenario", "client", "checks", "admitted", "model", "excess", "of limits", "heir", "local", "errors of checks", "other errors",
          "values lost", "slowest ms", "CPU %")


def prepare(tests, environments):
    """Gives the scenarios among `tests` the Python that has redis-py, and the packages of Node.js that have ioredis."""
    scenarios = [test for test in tests if LABEL in test.name]
    if not scenarios:
        return
    for name in (CLIENT, "node"):
        environments.ask(name)
    try:
        environments.get(CLIENT)
        node_path = environments.get("node")["NODE_PATH"]
    except Missing as error:
        for test in scenarios:
            test.missing = str(error)
        return
    for test in scenarios:
        test.env["SCENARIO_PYTHON"] = str(CACHE / "python" / CLIENT / "bin" / "python")
        test.env["SCENARIO_NODE_PATH"] = node_path


def begin_table(tests):
    """Lets `tests` write their rows, and forgets those of earlier runs."""
    shutil.rmtree(TABLE, ignore_errors=True)
    TABLE.mkdir(parents=True)
    for test in tests:
        test.env["SCENARIO_TABLE"] = str(TABLE)


def show_table():
    rows = [[cell.strip() for cell in row.read_text().strip().strip("|").split("|")] for row in sorted(TABLE.glob("*.row"))]
    rows = [list(TITLES), *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(TITLES))]
    print()
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))]
        print(f"| {' | '.join(cells)} |")
        if number == 0:
            rules = ["-" * width if column < 2 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
            print(f"| {' | '.join(rules)} |")
