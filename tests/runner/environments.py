"""What the client and library suites need: system packages, and libraries by package name in caches of our own under .cache/.

Each set-up is made once and marked with the hash of what it was made from; the next run finds the mark and does nothing.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .rust import ROOT

CACHE = ROOT / ".cache"
CLIENTS = ROOT / "tests" / "clients"
LIBRARIES = ROOT / "tests" / "libraries"
SETUP_SECONDS_MAX = 900
MAVEN_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

# Program -> Debian package. Debian's Go and Node.js are older than the libraries want, so those are only named.
DEBIAN_PACKAGES = {
    "redis-server": "redis-server",
    "redis-cli": "redis-tools",
    "redis-benchmark": "redis-tools",
    "javac": "openjdk-17-jdk-headless",
    "mvn": "maven",
}
# The oldest versions that the locked libraries run on.
OLDEST = {"node": (20,), "go": (1, 26), "javac": (17,)}


class Missing(Exception):
    """A tool or library that is not here and could not be had."""


def install_system_packages():
    """On Debian as root, installs what is missing; elsewhere prints what a person may want to install."""
    wanted = {package for program, package in DEBIAN_PACKAGES.items() if shutil.which(program) is None}
    if not _has_venv():
        wanted.add("python3-venv")
    if not wanted:
        return
    names = " ".join(sorted(wanted))
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"for every test, install what these Debian packages hold: {names}", flush=True)
        return
    print(f"installing {names}", flush=True)
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        _call(["apt-get", "-q", "update"], env=env)
        _call(["apt-get", "-q", "-y", "install", "--no-install-recommends", *sorted(wanted)], env=env)
    except Missing as error:
        print(error, flush=True)
    if "redis-server" in wanted and shutil.which("service"):
        # The package starts it as a service, on a port that we have no business with.
        subprocess.run(["service", "redis-server", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Environments:
    """Sets up each environment that is asked for, in the background, once."""

    def __init__(self):
        self._pool = ThreadPoolExecutor(max_workers=4)
        self._started = {}

    def ask(self, name):
        if name not in self._started:
            make, *args = SETUPS[name]
            self._started[name] = self._pool.submit(make, *args)

    def get(self, name):
        """The environment's variables. Raises Missing."""
        return self._started[name].result()


def programs(*names):
    for name in names:
        _require(name)
    return {}


def python(source, venv):
    """A virtual environment with what the requirements file `source` locks."""
    if not _has_venv():
        raise Missing("python3-venv")
    with _made_from(venv, [source], sys.version) as is_new:
        if is_new:
            _call([sys.executable, "-m", "venv", str(venv)])
            _call([str(venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "-r", str(source)])
    return {"VIRTUAL_ENV": str(venv), "PYTHONDONTWRITEBYTECODE": "1"}


def compose(source, venv):
    """A virtual environment as `python` makes, with a compose program in it."""
    env = python(source, venv)
    # Dry: it then asks for no podman.
    return {**env, "COMPOSE_PROGRAM": f"{venv / 'bin' / 'podman-compose'} --dry-run"}


def node(source, directory):
    _require("node")
    _require("npm")
    sources = [source / name for name in ("package.json", "package-lock.json", ".npmrc")]
    with _made_from(directory, sources) as is_new:
        if is_new:
            for file in sources:
                shutil.copy(file, directory)
            _call(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=directory)
    return {"NODE_PATH": str(directory / "node_modules")}


def go(source, program):
    """Compiles the tests in `source` into `program`."""
    _require("go")
    env = {
        "GOMODCACHE": str(CACHE / "go" / "modules"),
        "GOCACHE": str(CACHE / "go" / "build"),
        "GOFLAGS": "-mod=readonly -modcacherw",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    with _made_from(program.parent, sorted(source.glob("*"))) as is_new:
        if is_new:
            _call(["go", "test", "-c", "-o", str(program), "."], cwd=source, env=env)
    return {}


def java(source, directory):
    """The jars that the pom of `source` names in `lib` of `directory`, its compiled tests in `classes`."""
    _require("javac")
    _require("mvn")
    java_files = sorted(source.glob("src/**/*.java"))
    with _made_from(directory, [source / "pom.xml", *java_files]) as is_new:
        if is_new:
            shutil.rmtree(directory / "lib", ignore_errors=True)
            shutil.rmtree(directory / "classes", ignore_errors=True)
            maven = ["mvn", "-q", "-B", f"-Dmaven.repo.local={CACHE / 'maven'}", "-f", str(source / "pom.xml")]
            _call([*maven, f"{MAVEN_DEPENDENCY_PLUGIN}:copy-dependencies", f"-DoutputDirectory={directory / 'lib'}"])
            # Libraries name annotations of others that nothing else needs.
            lint = "-Xlint:all,-processing,-classfile"
            options = ["-encoding", "UTF-8", lint, "-Werror", "-cp", str(directory / "lib" / "*")]
            _call(["javac", *options, "-d", str(directory / "classes"), *map(str, java_files)])
    return {}


SETUPS = {
    "redis-cli": (programs, "redis-cli"),
    "redis-benchmark": (programs, "redis-benchmark"),
    "redis-py-8": (python, CLIENTS / "python" / "redis-py-8.txt", CACHE / "python" / "redis-py-8"),
    "redis-py-5": (python, CLIENTS / "python" / "redis-py-5.txt", CACHE / "python" / "redis-py-5"),
    "node": (node, CLIENTS / "node", CACHE / "node"),
    "go": (go, CLIENTS / "go", CACHE / "go" / "clients.test"),
    "java": (java, CLIENTS / "java", CACHE / "java"),
    "redis-server": (programs, "redis-server"),
    "compose": (compose, ROOT / "tests" / "compose" / "requirements.txt", CACHE / "python" / "compose"),
    "libraries-python": (python, LIBRARIES / "python" / "requirements.txt", CACHE / "libraries" / "python"),
    "libraries-node": (node, LIBRARIES / "node", CACHE / "libraries" / "node"),
    "libraries-go": (go, LIBRARIES / "go", CACHE / "libraries" / "go" / "libraries.test"),
    "libraries-java": (java, LIBRARIES / "java", CACHE / "libraries" / "java"),
}


@contextlib.contextmanager
def _made_from(directory, sources, *more):
    """Yields whether `directory` has still to be made from `sources`; marks it as made if nothing is raised."""
    digest = hashlib.sha256(repr(more).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    mark = directory / ".made-from"
    is_new = not mark.exists() or mark.read_text() != digest.hexdigest()
    if is_new:
        directory.mkdir(parents=True, exist_ok=True)
        mark.unlink(missing_ok=True)
    yield is_new
    mark.write_text(digest.hexdigest())


def _require(program):
    path = shutil.which(program)
    if path is None:
        raise Missing(f"needs {program}, which is missing")
    oldest = OLDEST.get(program)
    if oldest:
        option = "version" if program == "go" else "--version"
        said = subprocess.run([path, option], capture_output=True, text=True, timeout=60).stdout
        found = re.search(r"\d+(\.\d+)*", said)
        version = tuple(map(int, found.group().split("."))) if found else ()
        if version < oldest:
            raise Missing(f"needs {program} {'.'.join(map(str, oldest))} or newer; here is {said.strip() or 'none'}")


def _has_venv():
    return subprocess.run([sys.executable, "-c", "import venv, ensurepip"], stderr=subprocess.DEVNULL).returncode == 0


def _call(argv, cwd=ROOT, env=None):
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SETUP_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"`{' '.join(argv)}` took more than {SETUP_SECONDS_MAX} s") from error
    if done.returncode != 0:
        raise Missing(f"`{' '.join(argv)}` failed:\n{done.stdout[-4000:]}")
