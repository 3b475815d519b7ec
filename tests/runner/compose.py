"""Runs what docker-compose.yml says as plain processes on loopback: each service gets an address of its own, under which the others'
commands and environments then know it."""

import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

ANYWHERE = "0.0.0.0"
ADMIN_PORT = 8379
STOP_SECONDS = 40


@dataclass
class Service:
    name: str
    address: str
    argv: list[str]
    env: dict[str, str]


def read(path, binary, network):
    """The services of a compose file, in their order; `network` are the first three numbers of their addresses. Those that are built
    from this repository run `binary`. Raises ValueError for what this does not understand."""
    import yaml

    with open(path) as file:
        declared = yaml.safe_load(file)["services"]
    addresses = {name: f"{network}.{number}" for number, name in enumerate(declared, 1)}
    return [_service(name, service, addresses, binary) for name, service in declared.items()]


KNOWN = {"image", "build", "command", "environment", "ports", "depends_on", "stop_grace_period"}


def _service(name, declared, addresses, binary):
    unknown = set(declared) - KNOWN
    if unknown:
        raise ValueError(f"{name}: {', '.join(sorted(unknown))} means nothing for plain processes")
    command = declared.get("command", [])
    if not isinstance(command, list):
        raise ValueError(f"{name}: the command must be a list")

    def here(text):
        # A dollar sign that is not for compose is written twice.
        text = str(text).replace("$$", "$").replace(ANYWHERE, addresses[name])
        for other, address in addresses.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(other)}(?![\w.-])", address, text)
        return text

    argv = [here(word) for word in command]
    if "build" in declared:
        argv.insert(0, str(binary))
    environment = {key: here(value) for key, value in (declared.get("environment") or {}).items()}
    return Service(name, addresses[name], argv, environment)


@dataclass
class Running:
    """Processes of services. What they print goes into files of the directory `logs`, if there is one."""

    services: list[Service]
    logs: str | None = None
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    def __enter__(self):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TOLLGATE_")}
        for service in self.services:
            out = open(os.path.join(self.logs, service.name), "wb") if self.logs else None
            # A group of its own: what a shell has started is stopped with it.
            self.processes[service.name] = subprocess.Popen(
                service.argv, env={**clean, **service.env}, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True)
            if out:
                out.close()
        return self

    def __exit__(self, *_):
        self.stop()

    def ended(self):
        """The services whose processes have ended, with their statuses."""
        polled = {name: process.poll() for name, process in self.processes.items()}
        return {name: status for name, status in polled.items() if status is not None}

    def stop(self):
        """Ends all, the last first, as compose does, and gives them time to do it well."""
        for name in reversed(self.processes):
            _signal(self.processes[name], signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for process in self.processes.values():
            try:
                process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            _signal(process, signal.SIGKILL)
            process.wait()


def _signal(process, which):
    try:
        os.killpg(process.pid, which)
    except ProcessLookupError:
        pass


def nodes(services):
    """Those that are nodes."""
    return [service for service in services if "serve" in service.argv]


def until_ready(running, seconds):
    """Waits until every node is ready. Raises TimeoutError, or RuntimeError if a process has ended."""
    deadline = time.monotonic() + seconds
    waiting = list(nodes(running.services))
    while waiting:
        ended = running.ended()
        if ended:
            raise RuntimeError(", ".join(f"{name} ended with status {status}" for name, status in ended.items()))
        if time.monotonic() > deadline:
            raise TimeoutError(f"{', '.join(service.name for service in waiting)} not ready after {seconds} s")
        waiting = [service for service in waiting if not _is_ready(service)]
        time.sleep(0.05)


def _is_ready(service):
    try:
        with urllib.request.urlopen(f"http://{service.address}:{ADMIN_PORT}/readyz", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


def wait(running):
    """Waits for Ctrl-C, SIGTERM, or the end of a process; the latter as an error message."""
    told = threading.Event()
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, lambda *_: told.set())
    while not told.wait(0.2):
        ended = running.ended()
        if ended:
            return ", ".join(f"{name} ended with status {status}" for name, status in ended.items())
    return None
