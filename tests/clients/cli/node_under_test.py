"""The node under test, as tests/run.py announces it in TOLLGATE_* variables."""

import itertools
import os
import subprocess
import urllib.request

HOST = os.environ["TOLLGATE_HOST"]
PORT = os.environ["TOLLGATE_PORT"]
PASSWORD_PORT = os.environ["TOLLGATE_PASSWORD_PORT"]
PASSWORD = os.environ["TOLLGATE_PASSWORD"]
_serial = itertools.count()


def new_key(label):
    return f"cli:{label}:{os.getpid()}:{next(_serial)}"


def run(*argv, stdin=""):
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout, done.stderr


def restart_node():
    request = urllib.request.Request(os.environ["TOLLGATE_CONTROL"] + "/restart", method="POST")
    urllib.request.urlopen(request, timeout=20).close()
