"""A Tollgate node for a client suite, and the control address by which the suite has it killed and started again."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

READY_SECONDS_MAX = 10
PASSWORD = "correct horse battery staple"


class Node:
    def __init__(self, binary, args):
        self.directory = Path(tempfile.mkdtemp(prefix="tollgate-client-"))
        self.binary = binary
        self.args = args
        self.process = None
        self.ports = (0, 0)

    def start(self):
        ready_file = self.directory / "ready.json"
        ready_file.unlink(missing_ok=True)
        listen, admin = (f"127.0.0.1:{port}" for port in self.ports)
        argv = [self.binary, "serve", "--listen", listen, "--admin", admin, "--ready-file", str(ready_file)]
        # TOLLGATE_* are the node's settings; ours are no business of its.
        env = {name: value for name, value in os.environ.items() if not name.startswith("TOLLGATE_")}
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*argv, *self.args], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                ready = json.loads(ready_file.read_text())
                self.ports = tuple(int(ready[face].rsplit(":", 1)[1]) for face in ("listen", "admin"))
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        raise RuntimeError(f"the node did not start; it printed:\n{self.log()}")

    @property
    def port(self):
        return self.ports[0]

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
        """A node must outlive a suite, and its log must show no panic."""
        status = self.process.poll()
        if status is not None:
            raise RuntimeError(f"the node ended with {status}; it printed:\n{self.log()}")
        if "panicked at" in self.log():
            raise RuntimeError(f"the node panicked; it printed:\n{self.log()}")

    def remove(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def nodes_for_a_suite(binary, args):
    """An open node, one with a password, and the control address; yields the environment that tells of them."""
    with tempfile.NamedTemporaryFile("w", suffix=".password") as password_file:
        password_file.write(PASSWORD + "\n")
        password_file.flush()
        node = Node(binary, args)
        guarded = Node(binary, [*args, "--password-file", password_file.name])
        control = None
        try:
            node.start()
            guarded.start()
            control = serve_control(node)
            yield {
                "TOLLGATE_HOST": "127.0.0.1",
                "TOLLGATE_PORT": str(node.port),
                "TOLLGATE_PASSWORD_PORT": str(guarded.port),
                "TOLLGATE_PASSWORD": PASSWORD,
                "TOLLGATE_CONTROL": f"http://127.0.0.1:{control.server_port}",
            }
            node.check_it_ran_well()
            guarded.check_it_ran_well()
        finally:
            if control is not None:
                control.shutdown()
                control.server_close()
            node.remove()
            guarded.remove()


def serve_control(node):
    """`POST /restart`: kills the open node with SIGKILL and answers once it serves again on the same port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            if self.path != "/restart":
                self.send_error(404)
                return
            try:
                node.restart()
            except RuntimeError as error:
                self.send_error(500, explain=str(error))
                return
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
