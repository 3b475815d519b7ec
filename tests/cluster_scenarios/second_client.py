"""redis-py beside a scenario's load: checks, counters, scripts and pipelines through all nodes, one command after the other.

Run by the scenario: `second_client.py limit window_ms burst rate began_us`; `began_us` is the reading of the monotonic clock from which times
count. Each line on standard input is a JSON object: `targets`, the nodes to use
as [name, port], from the next command on; an empty line ends it. Standard output gets one JSON object: what was answered, and what was not.
"""

import json
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

KEYS = 20
COUNTERS = 6
SCRIPT = """
local count = redis.call('HINCRBY', KEYS[1], 'count', ARGV[1])
return {count, tonumber(redis.call('HGET', KEYS[1], 'count'))}
"""


class Wrong(Exception):
    """An answer that no order of these commands gives."""


class Client:
    def __init__(self, limit, window_ms, burst, began_us):
        self.limit, self.window_ms, self.burst = limit, window_ms, burst
        self.began_us = began_us
        self.connections = {}
        self.emptied = set()
        # What each counter must be; none if that is not known.
        self.counts = {}
        self.seen = {"checks": [], "throttles": [], "faults": [], "latencies": [], "others": 0, "lost": [], "doubled": [], "unknown": 0}

    def now_us(self):
        return time.monotonic_ns() // 1000 - self.began_us

    def connection(self, target):
        if target not in self.connections:
            # The scenario counts every error: nothing is tried again.
            self.connections[target] = redis.Redis(
                host="127.0.0.1", port=target[1], decode_responses=True, socket_timeout=10, retry=Retry(NoBackoff(), 0)
            )
        return self.connections[target]

    def forget(self, targets):
        for gone in set(self.connections) - set(targets):
            self.connections.pop(gone).close()

    def step(self, number, target):
        kinds = [self.check, self.check, self.throttle, self.count, self.script, self.pipeline]
        kind = kinds[number % len(kinds)]
        is_check = kind in (self.check, self.throttle)
        sent_us = self.now_us()
        try:
            kind(self.connection(target), number // len(kinds), sent_us)
        except (redis.RedisError, OSError) as error:
            self.seen["faults"].append([self.now_us(), target[0], is_check, text_of(error)])
            return
        if is_check:
            self.seen["latencies"].append([target[0], sent_us, self.now_us() - sent_us])
        else:
            self.seen["others"] += 1

    def check(self, client, number, sent_us):
        key = number % KEYS
        cost = 1 if key in self.emptied else self.burst
        self.emptied.add(key)
        args = ("LIMIT", self.limit, "PER", f"{self.window_ms}ms", "BURST", self.burst, "COST", cost)
        try:
            reply = client.execute_command("RL.CHECK", f"py:check:{key}", *args)
        except redis.RedisError:
            self.seen["unknown"] += cost
            raise
        # A map in RESP3, of which redis-py makes a dictionary.
        fields = list(reply.values()) if isinstance(reply, dict) else reply
        self.seen["checks"].append([key, sent_us, self.now_us(), cost, fields[0] == 1, fields[5]])

    def throttle(self, client, number, sent_us):
        key = number % KEYS
        args = (self.burst - 1, self.limit, self.window_ms // 1000, 1)
        reply = client.execute_command("CL.THROTTLE", f"py:throttle:{key}", *args)
        self.seen["throttles"].append([key, sent_us, self.now_us(), 1, reply[0] == 0, "owner"])

    def count(self, client, number, _):
        self.counted(f"py:count:{number % COUNTERS}", 1, lambda key: client.incr(key))

    def script(self, client, number, _):
        def call(key):
            # EVALSHA, and SCRIPT LOAD where the script is not known.
            count, field = client.register_script(SCRIPT)(keys=[key], args=[2])
            if count != field:
                raise Wrong(f"{key}: {count} and {field}")
            return count

        self.counted(f"py:script:{number % COUNTERS}", 2, call)

    def pipeline(self, client, number, _):
        def call(key):
            with client.pipeline(transaction=False) as pipe:
                before, count, after, _ = pipe.get(key).incr(key).get(key).expire(key, 600).execute()
            if count != int(before or 0) + 1 or int(after) != count:
                raise Wrong(f"{key}: {before}, {count}, {after}")
            return count

        self.counted(f"py:pipeline:{number % COUNTERS}", 1, call)

    def counted(self, key, more, call):
        expected = self.counts.get(key, 0)
        # Until it is answered.
        self.counts[key] = None
        found = call(key)
        if expected is not None and found != expected + more:
            which = "lost" if found < expected + more else "doubled"
            self.seen[which].append([self.now_us(), abs(found - expected - more)])
        self.counts[key] = found


def text_of(error):
    if isinstance(error, redis.TimeoutError):
        return "Silent"
    if isinstance(error, redis.ConnectionError):
        return "Unreached" if "refused" in str(error) else "Closed"
    return f"{type(error).__name__} {error}"


class Orders(threading.Thread):
    """What the scenario says, as it comes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.targets = []
        self.is_over = threading.Event()

    def run(self):
        for line in sys.stdin:
            if not line.strip():
                break
            self.targets = [tuple(target) for target in json.loads(line)["targets"]]
        self.is_over.set()


def main():
    limit, window_ms, burst, rate, began_us = map(int, sys.argv[1:])
    interval = 1 / rate
    client = Client(limit, window_ms, burst, began_us)
    orders = Orders()
    orders.start()
    due = time.monotonic()
    number = 0
    while not orders.is_over.wait(max(0, due - time.monotonic())):
        due = max(due + interval, time.monotonic())
        targets = orders.targets
        client.forget(targets)
        if targets:
            # Of two counts that share no divisor, so that every kind of command goes to every node.
            client.step(number, targets[(number + number // 6) % len(targets)])
            number += 1
    json.dump(client.seen, sys.stdout)


if __name__ == "__main__":
    main()
