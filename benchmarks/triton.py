"""Runs the real tritonserver with a repository of models, times its start and watches its processes.

The program comes from `tests.encoders.real_triton` (the wheel nvidia-pytriton, unpacked once into the cache); this
module adds readings of CPU time and memory, process ids, and a log that is not verbose.
"""

import os
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.encoders import real_triton

LAUNCH = Path(__file__).parents[1] / "templates/triton/launch.j2"
START_SECONDS = 240
STOP_SECONDS = 60
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# Hidden from the models: packages built for numpy 2, which transformers imports if it finds them, while Triton's stub
# needs numpy 1.26. None of them takes part in serving an encoder.
HIDDEN = (
    *("scipy", "sklearn", "scikit", "pandas", "torchvision", "torchaudio", "accelerate", "jax", "flax", "numba"),
    *("cupy", "cv2", "opencv", "pyarrow", "sentence_transformers", "peft", "onnx", "tensorboard", "PIL", "pillow"),
)


@dataclass
class Server:
    """A running server: addresses, log, and the seconds until every model was ready."""

    process: subprocess.Popen[bytes]
    http: str
    grpc: str
    log: Path
    seconds_to_ready: float

    def address(self, protocol: str) -> str:
        """Returns host and port for `grpc` or `http`."""
        return self.grpc if protocol == "grpc" else self.http

    def model(self, kind: str) -> str:
        """Returns the name of the model of this kind, which is the kind itself."""
        return kind

    def processes(self) -> dict[int, int]:
        """Returns start time, in ticks since boot, of tritonserver and each of its model processes, by process id."""
        return {pid: int(_stat(pid)[19]) for pid in _family(self.process.pid)}

    def cpu_seconds(self) -> float:
        """Returns CPU time of all the server's processes since their start."""
        return cpu_seconds(self.process.pid)

    def resident_mib(self) -> int:
        """Returns resident memory of all its processes; shared pages count in each."""
        return sum(int(_stat(pid)[21]) * PAGE for pid in _family(self.process.pid)) >> 20


@contextmanager
def serving(repository: Path, work: Path, cache: Path, flags: Sequence[str] = ()) -> Iterator[Server]:
    """Runs a server until every model of `repository` is ready; compilers keep their results in `cache`."""
    home = real_triton.installation()
    work.mkdir(parents=True)
    packages = real_triton.link_packages(work / "packages", home)
    for link in packages.iterdir():
        if link.name.startswith(HIDDEN):
            link.unlink()
    ports = dict(zip(("http", "grpc", "metrics"), real_triton.free_ports(3), strict=True))
    command = [*_command(home, repository, ports), *flags]
    log = work / "triton.log"
    with log.open("wb") as output:
        began = time.monotonic()
        surroundings = os.environ | environment(cache) | {"PATH": _path()}
        process = subprocess.Popen(command, cwd=packages, stdout=output, stderr=subprocess.STDOUT, env=surroundings)
        try:
            _await(process, ports["http"], log)
            seconds = time.monotonic() - began
            yield Server(process, *(f"127.0.0.1:{ports[kind]}" for kind in ("http", "grpc")), log, seconds)
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def cpu_seconds(pid: int) -> float:
    """Returns CPU time that a process and all its descendants have used since they started."""
    return sum(sum(map(int, _stat(process)[11:13])) for process in _family(pid)) / TICKS


def _command(home: Path, repository: Path, ports: dict[str, int]) -> list[str]:
    triton = home / "pytriton" / "tritonserver"
    command = [str(triton / "bin" / "tritonserver"), f"--model-repository={repository}"]
    command += [f"--backend-directory={triton / 'backends'}"]
    for kind, port in ports.items():
        command += [f"--{kind}-address=127.0.0.1", f"--{kind}-port={port}"]
    return command


def environment(cache: Path) -> dict[str, str]:
    """Returns the environment of every server's container, because other variables would change the figures."""
    always = LAUNCH.read_text().partition("{%")[0]
    words = [word for line in always.splitlines() if line.startswith("export ") for word in shlex.split(line)[1:]]
    pairs = [word.split("=", 1) for word in words if "${" not in word and "$ENGINEHOUSE" not in word]
    return {name: value.replace("$HOME", str(cache)) for name, value in pairs}


def _path() -> str:
    """Returns PATH without virtual environments, from which Triton's Python stub would import."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not (Path(folder).parent / "pyvenv.cfg").exists())


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(START_SECONDS * 20):
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=2).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise AssertionError(f"tritonserver is not ready after {START_SECONDS} s:\n{log.read_text()[-9000:]}")


def _family(pid: int) -> list[int]:
    """Returns `pid` and all its descendants."""
    family = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            family += _family(int(child))
    return family


def _stat(pid: int) -> list[str]:
    """Returns fields of /proc/<pid>/stat after the program's name, so the process state is the first."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
