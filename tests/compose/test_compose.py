"""docker-compose.yml: a compose program takes it, and its commands and environment run as plain processes."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from runner import compose  # noqa: E402

FILE = ROOT / "docker-compose.yml"
# Other runs of this test have others.
NETWORK = f"127.{100 + os.getpid() % 150}.{os.getpid() // 150 % 250}"
READY_SECONDS_MAX = 40
LOAD_SECONDS_MAX = 40


def redis_cli(node, *words, port=6379):
    done = subprocess.run(["redis-cli", "-h", node.address, "-p", str(port), *words], capture_output=True, text=True,
                          timeout=20)
    return done.stdout.split("\n")[:-1]


def checks(node):
    with urllib.request.urlopen(f"http://{node.address}:{compose.ADMIN_PORT}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    return sum(float(value) for value in re.findall(r"^tollgate_checks_total\{.*\} (\S+)$", text, re.MULTILINE))


class Compose(unittest.TestCase):
    def test_a_compose_program_takes_the_file(self):
        program = os.environ["COMPOSE_PROGRAM"].split()
        done = subprocess.run([*program, "-f", str(FILE), "config"], cwd=ROOT, capture_output=True, text=True, timeout=50)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for word in ("node-1", "node-2", "node-3", "load", "TOLLGATE_CLUSTER_JOIN", "redis-benchmark"):
            self.assertIn(word, done.stdout)

    def test_scenario_its_nodes_act_as_one_under_its_load(self):
        binary = os.environ["BINARY"]
        services = compose.read(FILE, binary, NETWORK)
        nodes = compose.nodes(services)
        self.assertEqual((len(services), len(nodes)), (4, 3))
        logs = tempfile.mkdtemp(prefix="tollgate-compose-")
        self.addCleanup(shutil.rmtree, logs, ignore_errors=True)
        with compose.Running(services, logs=logs) as running:
            compose.until_ready(running, READY_SECONDS_MAX)
            status = [binary, "cluster", "status", "--wait", "40", "--admin", f"{nodes[2].address}:{compose.ADMIN_PORT}"]
            done = subprocess.run(status, capture_output=True, text=True, timeout=50)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("settled: 3 members", done.stdout)
            self.agree(nodes)
            self.redirect(nodes)
            self.load(nodes)
            self.assertEqual(running.ended(), {})
        statuses = [running.processes[node.name].returncode for node in nodes]
        self.assertEqual(statuses, [0, 0, 0])

    def agree(self, nodes):
        """A limit holds for all nodes together. On a busy machine a holder may be too late, and another decide in its place: then
        another bucket is tried."""
        for attempt in range(5):
            check = ["RL.CHECK", f"together:{attempt}", "LIMIT", "20", "PER", "30d"]
            replies = [redis_cli(node, *check) for node in nodes * 10]
            replies += [redis_cli(node, *check, "PEEK") for node in nodes]
            if all(reply[5] == "owner" for reply in replies):
                self.assertEqual(sum(reply[0] == "1" for reply in replies), 20)
                self.assertEqual({reply[2] for reply in replies[-3:]}, {"0"})
                return
        self.fail("holders were too late again and again")

    def redirect(self, nodes):
        """Clients of Redis Cluster find every key."""
        for key in range(20):
            self.assertEqual(redis_cli(nodes[key % 3], "-c", "SET", f"key:{key}", str(key), port=6380), ["OK"])
        for key in range(20):
            self.assertEqual(redis_cli(nodes[0], "-c", "GET", f"key:{key}", port=6380), [str(key)])

    def load(self, nodes):
        """The load comes to every node."""
        before = sum(checks(node) for node in nodes)
        deadline = time.monotonic() + LOAD_SECONDS_MAX
        while time.monotonic() < deadline:
            if sum(checks(node) for node in nodes) > before + 300 and all(checks(node) > 0 for node in nodes):
                return
            time.sleep(0.2)
        self.fail("the load has sent too few checks")


if __name__ == "__main__":
    unittest.main()
