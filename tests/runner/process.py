"""One test in one process: its time, its peak memory, its output, its verdict."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

SECONDS_MAX = 60
SCENARIO_SECONDS_MAX = 90
RESIDENT_BYTES_MAX = 2 << 30
# What a failing test may print into the log of a run; the middle is left out.
OUTPUT_BYTES_MAX = 64 << 10

SKIP_MARK = "SKIPPED: "


@dataclass
class Test:
    """A test to run: a command line, and where and with what it runs."""

    name: str
    argv: list[str]
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    seconds_max: float = 0
    # Set for tests that cannot run here: why.
    missing: str = ""
    # Set for tests that their author left out of the usual run.
    is_ignored: bool = False
    # Set for tests that need something running beside them: a context manager that yields more environment.
    around: object = None

    def __post_init__(self):
        if not self.seconds_max:
            self.seconds_max = SCENARIO_SECONDS_MAX if "scenario_" in self.name else SECONDS_MAX

    @property
    def is_alone(self):
        """Tests that measure time ask by name to have the machine to themselves."""
        return "alone_" in self.name


@dataclass
class Outcome:
    name: str
    verdict: str  # "passed", "failed" or "skipped"
    reason: str = ""
    seconds: float = 0
    resident_bytes: int = 0
    output: str = ""


def in_ci():
    return os.environ.get("CI") in ("1", "true")


def skip(name, reason):
    """A test that cannot run: skipped, but in CI a failure, so that nothing goes untested unseen."""
    if in_ci():
        return Outcome(name, "failed", f"{reason}; in CI nothing is skipped")
    return Outcome(name, "skipped", reason)


def run(test, resident_bytes_max=RESIDENT_BYTES_MAX):
    if test.is_ignored:
        return Outcome(test.name, "skipped", "marked as ignored")
    if test.missing:
        return skip(test.name, test.missing)
    if test.around is None:
        return _run(test, {}, resident_bytes_max)
    outcome = Outcome(test.name, "failed")
    try:
        with test.around() as more_env:
            outcome = _run(test, more_env, resident_bytes_max)
    except Exception as error:  # whatever it is, it is this test's failure and not the run's
        outcome.verdict = "failed"
        outcome.reason = f"{outcome.reason}; {error}".removeprefix("; ")
    return outcome


def _run(test, more_env, resident_bytes_max):
    with tempfile.TemporaryFile() as out:
        started = time.monotonic()
        # A session of its own, so that whatever it leaves behind can be ended with it. Output goes to a file and not to
        # a pipe, so that a process left behind cannot keep us waiting.
        child = subprocess.Popen(
            test.argv,
            cwd=test.cwd,
            env={**os.environ, **test.env, **more_env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        overran = threading.Event()

        def stop():
            overran.set()
            _kill_group(child.pid)

        timer = threading.Timer(test.seconds_max, stop)
        timer.start()
        # Ended but not yet reaped, so that its number, which is its group's too, cannot be another's meanwhile.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        seconds = time.monotonic() - started
        timer.cancel()
        _kill_group(child.pid)
        # The peak is its own or that of the largest process that it started and waited for, whichever is larger.
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output = _read(out)

    outcome = Outcome(test.name, "passed", "", seconds, usage.ru_maxrss * 1024, output)
    skipped = [line for line in output.splitlines() if line.startswith(SKIP_MARK)]
    if overran.is_set():
        outcome.verdict, outcome.reason = "failed", f"still running after {test.seconds_max:g} s"
    elif child.returncode != 0:
        outcome.verdict, outcome.reason = "failed", _how_it_ended(child.returncode)
    elif outcome.resident_bytes > resident_bytes_max:
        outcome.verdict = "failed"
        outcome.reason = f"used {outcome.resident_bytes >> 20} MiB, more than {resident_bytes_max >> 20}"
    elif skipped:
        reason = skipped[0].removeprefix(SKIP_MARK)
        unmeasured = skip(test.name, reason)
        outcome.verdict, outcome.reason = unmeasured.verdict, unmeasured.reason
    return outcome


def _kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nothing is left


def _how_it_ended(code):
    return f"exit status {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"


def _read(out):
    size = out.seek(0, os.SEEK_END)
    out.seek(0)
    if size <= OUTPUT_BYTES_MAX:
        return out.read().decode(errors="replace")
    half = OUTPUT_BYTES_MAX // 2
    head = out.read(half)
    out.seek(size - half)
    left_out = f"\n[... {size - 2 * half} bytes left out ...]\n"
    return head.decode(errors="replace") + left_out + out.read().decode(errors="replace")
