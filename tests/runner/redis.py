"""A redis-server for a library suite: what Tollgate's answers are compared with."""

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

READY_SECONDS_MAX = 10
STARTS_MAX = 3


class RedisServer:
    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="tollgate-redis-"))
        self.process = None
        self.port = 0

    def start(self):
        if self.port:
            self._start_on(self.port)
            return self
        # A port that is free now may be taken a moment later, so one failure to start says nothing.
        for attempt in range(1, STARTS_MAX + 1):
            try:
                self._start_on(_free_port())
                return self
            except RuntimeError:
                if attempt == STARTS_MAX:
                    raise
        raise AssertionError("the loop returns or raises")

    def _start_on(self, port):
        argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                argv, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            if _answers(port):
                self.port = port
                return
            time.sleep(0.01)
        self.kill()
        raise RuntimeError(f"redis-server did not start; it printed:\n{self.log()}")

    def log(self):
        return (self.directory / "log").read_text(errors="replace")

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def restart(self):
        self.kill()
        self.start()

    def check_it_ran_well(self):
        status = self.process.poll()
        if status is not None:
            raise RuntimeError(f"redis-server ended with {status}; it printed:\n{self.log()}")

    def remove(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64) == b"+PONG\r\n"
    return False
