#!/usr/bin/env python3
"""Builds the workspace once and runs every test in a process of its own: unit and integration tests, documentation
examples, and the suites of real client and rate limiting libraries.

    python3 tests/run.py                 all
    python3 tests/run.py layering scan   those whose name contains one of the words
    python3 tests/run.py --list          names only
    python3 tests/run.py --redis-server library/node    the library suites that have the word in their name, on
                                         redis-server instead of on a node, and what each wrote down
    python3 tests/run.py --scenarios join    the scenarios of tests/cluster_scenarios that have the word in their name, one
                                         after the other, and their table

No test may take more than 60 s (90 s with `scenario_` in its name) or 2 GiB. Two run at a time; those with `alone_` in
their name run by themselves at the end. A test whose tool is missing is skipped, by name; with CI=1 or CI=true it fails.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from runner import clients, libraries, operations, process, rust, scenarios
from runner.environments import Environments, install_system_packages

PARALLEL = 2
SLOWEST_SHOWN = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", nargs="*", help="run the tests whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    parser.add_argument("--redis-server", action="store_true", help="library suites on redis-server, and nothing else")
    parser.add_argument("--scenarios", action="store_true", help="scenarios of a cluster, and their table")
    options = parser.parse_args()

    def is_wanted(name):
        return not options.word or any(word in name for word in options.word)

    def is_library_wanted(name, is_enabled):
        words = options.word if is_enabled else [word for word in options.word if word.startswith("library/")]
        return any(word in name for word in words) or (is_enabled and not words)

    started = time.monotonic()
    if options.redis_server:
        wanted = libraries.redis_names(is_wanted)
        if options.list:
            print("\n".join(wanted))
            return
        install_system_packages()
        outcomes = run_all(libraries.list_redis_tests(Environments(), wanted))
        sys.exit(report(outcomes, time.monotonic() - started))
    library_suites = set() if options.scenarios else libraries.names(is_library_wanted)
    suites = set() if options.scenarios else {name for name in clients.names() if is_wanted(name)}
    composed = set() if options.scenarios else {name for name in operations.names() if is_wanted(name)}
    environments = Environments()
    if not options.list:
        install_system_packages()
        clients.prepare(environments, suites)
        operations.prepare(environments, composed)
        libraries.prepare(environments, library_suites)
    try:
        build = rust.Build.make()
    except rust.BuildFailed as error:
        sys.exit(str(error))
    tests = [test for test in [runner_test(), *build.list_tests(), rust.doc_tests()] if is_wanted(test.name)]
    if options.scenarios:
        tests = [test for test in tests if scenarios.LABEL in test.name]
    if options.list:
        print("\n".join([*(test.name for test in tests), *sorted(suites | composed | library_suites)]))
        return
    scenarios.prepare(tests, environments)
    if options.scenarios:
        scenarios.begin_table(tests)
        outcomes = run_all(tests, parallel=1)
        status = report(outcomes, time.monotonic() - started)
        scenarios.show_table()
        sys.exit(status)
    tests += clients.list_tests(environments, suites, build.binaries.get("tollgate"))
    tests += operations.list_tests(environments, composed, build.binaries.get("tollgate"))
    tests += libraries.list_tests(environments, library_suites, build.binaries.get("tollgate"))
    print(f"ready to run {len(tests)} tests after {time.monotonic() - started:.0f} s", flush=True)
    outcomes = run_all(tests)
    sys.exit(report(outcomes, time.monotonic() - started))


def runner_test():
    """The tests of this runner."""
    argv = [sys.executable, "-m", "unittest", "-v", "runner.test_process", "runner.test_libraries"]
    return process.Test("runner", argv, Path(__file__).parent)


def run_all(tests, parallel=PARALLEL):
    # Those that may take longest first, so that they are not what the end waits for.
    together = sorted((test for test in tests if not test.is_alone), key=lambda test: -test.seconds_max)
    outcomes = []
    with ThreadPoolExecutor(max_workers=parallel) as pool:
        for running in as_completed([pool.submit(process.run, test) for test in together]):
            outcomes.append(show(running.result()))
    outcomes += [show(process.run(test)) for test in tests if test.is_alone]
    return outcomes


def show(outcome):
    line = f"{outcome.verdict:8}{outcome.seconds:6.2f} s  {outcome.name}"
    print(f"{line}: {outcome.reason}" if outcome.reason else line, flush=True)
    if outcome.verdict == "failed" and outcome.output:
        print("    " + outcome.output.rstrip().replace("\n", "\n    "), flush=True)
    return outcome


def report(outcomes, seconds):
    by_verdict = {
        verdict: [outcome for outcome in outcomes if outcome.verdict == verdict]
        for verdict in ("passed", "failed", "skipped")
    }
    print("\nslowest:")
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)[:SLOWEST_SHOWN]:
        print(f"  {outcome.seconds:6.2f} s  {outcome.resident_bytes >> 20:5} MiB  {outcome.name}")
    for verdict in ("skipped", "failed"):
        if by_verdict[verdict]:
            print(f"\n{verdict}:")
        for outcome in by_verdict[verdict]:
            print(f"  {outcome.name}: {outcome.reason}")
    counts = ", ".join(f"{len(found)} {verdict}" for verdict, found in by_verdict.items())
    print(f"\n{seconds:.0f} s in all\n{counts}", flush=True)
    if not outcomes:
        print("no test has such a name", file=sys.stderr)
    return 1 if by_verdict["failed"] or not outcomes else 0


if __name__ == "__main__":
    main()
