"""The workspace's own tests: built once, listed, each run in a process of its own."""

import json
import os
import subprocess
from pathlib import Path

from .process import Test, in_ci

ROOT = Path(__file__).resolve().parents[2]
# Compiling the documentation's examples is part of running them.
DOC_TESTS_SECONDS_MAX = 600


class BuildFailed(Exception):
    pass


class Build:
    """Everything that one `cargo build` made: test executables, and the binaries that tests start."""

    def __init__(self):
        self.tests = []  # (label, package, executable, directory)
        self.binaries = {}

    @classmethod
    def make(cls):
        # One call for tests and binaries, so that both come out of the same set of features.
        command = ["cargo", "build", "--workspace", "--bins", "--tests", "--message-format=json-render-diagnostics"]
        if in_ci():
            command.append("--locked")
        build = cls()
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as cargo:
            for line in cargo.stdout:
                if line.startswith("{"):
                    build._add(json.loads(line))
        if cargo.returncode != 0:
            raise BuildFailed(f"{' '.join(command)} failed")
        return build

    def _add(self, message):
        executable = message.get("executable")
        if message["reason"] != "compiler-artifact" or not executable:
            return
        target = message["target"]
        if not message["profile"]["test"]:
            if "bin" in target["kind"]:
                self.binaries[target["name"]] = executable
            return
        directory = Path(message["manifest_path"]).parent
        package = _package_name(message["package_id"])
        # Unit tests go by the package's name alone, integration tests by the file's too.
        label = f"{package}/{target['name']}" if "test" in target["kind"] else package
        self.tests.append((label, package, executable, directory))

    def list_tests(self):
        tests = []
        for label, package, executable, directory in sorted(self.tests):
            env = self.environment(package, directory)
            ignored = set(_names(executable, ["--ignored"], directory, env))
            for name in _names(executable, [], directory, env):
                argv = [executable, "--exact", name, "--nocapture", "--test-threads=1"]
                tests.append(Test(f"{label} {name}", argv, directory, env, is_ignored=name in ignored))
        return tests

    def environment(self, package, directory):
        """What cargo itself sets for a test that it runs."""
        return {
            "CARGO_MANIFEST_DIR": str(directory),
            "CARGO_PKG_NAME": package,
            "RUST_BACKTRACE": os.environ.get("RUST_BACKTRACE", "1"),
        }


def doc_tests():
    argv = ["cargo", "test", "--workspace", "--doc"]
    return Test("documentation examples", argv, ROOT, seconds_max=DOC_TESTS_SECONDS_MAX)


def _names(executable, options, directory, env):
    listed = subprocess.run(
        [executable, "--list", "--format", "terse", *options],
        cwd=directory,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]


def _package_name(package_id):
    """From `path+file:///dir/name#0.1.0` or `path+file:///dir#name@0.1.0`."""
    path, _, fragment = package_id.partition("#")
    return fragment.split("@")[0] if "@" in fragment else path.rsplit("/", 1)[1]
