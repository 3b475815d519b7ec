"""`redis-cli -c` as a client of Redis Cluster, through the redirecting face: checks and counters, one command after the other. Run and told
what to do, and answering, as second_client.py is; it stays with the first node that it is told of, as one who types does."""

import json
import subprocess
import sys
import time

from second_client import COUNTERS, KEYS, Client, Orders, Wrong


class Cli(Client):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.process = None

    def ask(self, line, lines):
        """The lines of a reply."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        reply = []
        while len(reply) < lines:
            text = self.process.stdout.readline()
            if not text:
                raise Wrong("redis-cli has ended")
            text = text.rstrip("\n")
            if text.startswith("-> Redirected"):
                continue
            reply.append(text)
            if len(reply) == 1 and not text.lstrip("-").isdigit():
                raise Wrong(text)
        return reply

    def step(self, number, target):
        if self.process is None:
            argv = ["redis-cli", "-c", "-p", str(target[1])]
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        kind = [self.check, self.count][number % 2]
        sent_us = self.now_us()
        try:
            kind(number // 2, sent_us)
        except (Wrong, OSError) as error:
            self.seen["faults"].append([self.now_us(), "cluster", kind == self.check, str(error)])
            return
        if kind == self.check:
            self.seen["latencies"].append(["cluster", sent_us, self.now_us() - sent_us])
        else:
            self.seen["others"] += 1

    def check(self, number, sent_us):
        key = number % KEYS
        cost = 1 if key in self.emptied else self.burst
        self.emptied.add(key)
        line = f"RL.CHECK cli:check:{key} LIMIT {self.limit} PER {self.window_ms}ms BURST {self.burst} COST {cost}"
        reply = self.ask(line, 6)
        self.seen["checks"].append([key, sent_us, self.now_us(), cost, reply[0] == "1", reply[5]])

    def count(self, number, _):
        self.counted(f"cli:count:{number % COUNTERS}", 1, lambda key: int(self.ask(f"INCR {key}", 1)[0]))


def main():
    limit, window_ms, burst, rate, began_us = map(int, sys.argv[1:])
    client = Cli(limit, window_ms, burst, began_us)
    orders = Orders()
    orders.start()
    due = time.monotonic()
    number = 0
    while not orders.is_over.wait(max(0, due - time.monotonic())):
        due = max(due + 1 / rate, time.monotonic())
        if orders.targets:
            client.step(number, orders.targets[0])
            number += 1
    if client.process is not None:
        client.process.kill()
        client.process.wait()
    json.dump(client.seen, sys.stdout)


if __name__ == "__main__":
    main()
