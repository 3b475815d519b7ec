#!/usr/bin/env python3
"""Runs docker-compose.yml as plain processes on loopback until Ctrl-C: `make cluster`.

    python3 tests/cluster.py [--binary PATH] [--network 127.0.0]
"""

import argparse
import os
import sys
from pathlib import Path

from runner import compose
from runner.environments import CACHE, SETUPS, Missing

ROOT = Path(__file__).parent.parent
READY_SECONDS = 30


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "tollgate")
    parser.add_argument("--network", default="127.0.0", help="the first three numbers of the addresses")
    options = parser.parse_args()
    with_yaml()
    services = compose.read(ROOT / "docker-compose.yml", options.binary, options.network)
    logs = CACHE / "run" / "cluster"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        with compose.Running(services, logs=str(logs)) as running:
            compose.until_ready(running, READY_SECONDS)
            introduce(services, options.binary, logs)
            failed = compose.wait(running)
            print("stopping", flush=True)
    except (RuntimeError, TimeoutError, OSError) as error:
        failed = str(error)
    if failed:
        sys.exit(f"{failed}; see {logs}")


def with_yaml():
    """Starts again with a Python that has PyYAML, if this one has not."""
    try:
        import yaml  # noqa: F401
    except ImportError:
        make, *args = SETUPS["compose"]
        try:
            make(*args)
        except Missing as error:
            sys.exit(f"needs PyYAML: {error}")
        python = str(CACHE / "python" / "compose" / "bin" / "python")
        os.execv(python, [python, *sys.argv])


def introduce(services, binary, logs):
    first, second = [node.address for node in compose.nodes(services)][:2]
    name = os.path.relpath(binary)
    print(
        f"Three nodes and a load run; what they say is in {os.path.relpath(logs)}. Ctrl-C stops them. Try it:\n"
        f"  redis-cli -h {second} RL.CHECK user:42 LIMIT 5 PER 1m\n"
        f"  redis-cli -h {first} -p 6380 -c SET k v\n"
        f"  {name} cluster status --admin {first}:{compose.ADMIN_PORT}",
        flush=True,
    )


if __name__ == "__main__":
    main()
