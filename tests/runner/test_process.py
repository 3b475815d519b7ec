"""Does the runner notice what it is there to notice?"""

import contextlib
import os
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

from .process import Test, run

HERE = Path(__file__).parent
MIB = 1 << 20


def python(code, **options):
    return Test("a test", [sys.executable, "-c", code], HERE, **options)


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("X", "Z")


@mock.patch.dict(os.environ, {"CI": ""})
class RunTest(unittest.TestCase):
    def test_passes_and_measures(self):
        outcome = run(python("import time; x = bytearray(64 << 20); time.sleep(0.1)"))
        self.assertEqual(outcome.verdict, "passed")
        self.assertGreater(outcome.seconds, 0.1)
        self.assertGreater(outcome.resident_bytes, 64 * MIB)

    def test_a_bad_exit_fails_with_its_output(self):
        outcome = run(python("print('why'); raise SystemExit(3)"))
        self.assertEqual((outcome.verdict, outcome.reason), ("failed", "exit status 3"))
        self.assertIn("why", outcome.output)

    def test_a_signal_fails(self):
        outcome = run(python("import os; os.abort()"))
        self.assertEqual((outcome.verdict, outcome.reason), ("failed", "ended by SIGABRT"))

    def test_time_is_bounded(self):
        outcome = run(python("import time; time.sleep(60)", seconds_max=0.3))
        self.assertEqual(outcome.verdict, "failed")
        self.assertIn("still running after 0.3 s", outcome.reason)
        self.assertLess(outcome.seconds, 10)

    def test_memory_is_bounded_in_children_too(self):
        big = "x = bytearray(64 << 20)"
        child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{big}'], check=True)"
        for code in (big, child):
            outcome = run(python(code), resident_bytes_max=60 * MIB)
            self.assertEqual(outcome.verdict, "failed")
            self.assertIn("MiB", outcome.reason)

    def test_what_is_left_behind_is_ended(self):
        outcome = run(python("import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"))
        self.assertEqual(outcome.verdict, "passed")
        deadline = time.monotonic() + 10
        while is_running(outcome.output.strip()):
            self.assertLess(time.monotonic(), deadline, "it still runs")
            time.sleep(0.01)

    def test_a_skip_is_a_failure_in_ci(self):
        code = "print('SKIPPED: needs a tool')"
        self.assertEqual(run(python(code)).verdict, "skipped")
        self.assertEqual(run(python("pass", missing="needs a tool")).reason, "needs a tool")
        with mock.patch.dict(os.environ, {"CI": "true"}):
            self.assertEqual(run(python(code)).verdict, "failed")
            self.assertEqual(run(python("pass", missing="needs a tool")).verdict, "failed")

    def test_what_runs_beside_it_must_start_and_stop_well(self):
        @contextlib.contextmanager
        def around(error_before=None, error_after=None):
            if error_before:
                raise RuntimeError(error_before)
            yield {"BESIDE": "here"}
            if error_after:
                raise RuntimeError(error_after)

        code = "import os; print(os.environ['BESIDE'])"
        self.assertEqual(run(python(code, around=around)).verdict, "passed")
        before = run(python(code, around=lambda: around(error_before="no start")))
        self.assertEqual((before.verdict, before.reason), ("failed", "no start"))
        after = run(python(code, around=lambda: around(error_after="it crashed")))
        self.assertEqual((after.verdict, after.reason, after.output), ("failed", "it crashed", "here\n"))


if __name__ == "__main__":
    unittest.main()
