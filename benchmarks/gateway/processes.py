"""Processes of the gateway's benchmark: gateways, their servers, LiteLLM before them; and the CPU time of each."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.gateway.clients import KEY
from gateway.__main__ import GRPC_EXPERIMENTS
from tests.gateway.weights import written

ROOT = Path(__file__).parents[2]
LOG = Path(tempfile.gettempdir()) / "gateway-servers.log"
TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 120
DRAIN_SECONDS = 5
"""Seconds that a stopping gateway gives its streams: fewer than the streams last, so that some are cut."""
Process = subprocess.Popen[str]
Cores = Sequence[int]


@contextlib.contextmanager
def begun(
    command: list[str], cores: Cores = (), path: str = "", says: bool = False, into: Path = LOG
) -> Iterator[Process]:
    """Runs the process during the block, on these cores, if any are named.

    `path` is its first package path. With `says` its output is read and its input written; else its output goes to the
    file `into`.
    """
    own = [str(ROOT), str(ROOT / "files")]
    paths = [path] if path else [*own, *filter(None, [os.environ.get("PYTHONPATH")])]
    # Direct clients get the gateway's settings of gRPC.
    own_grpc = {"GRPC_EXPERIMENTS": GRPC_EXPERIMENTS}
    environment = {**own_grpc, **os.environ, "PYTHONPATH": ":".join(paths), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    pipe = subprocess.PIPE if says else None
    with LOG.open("a") as log, into.open("a") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe or output, stderr=log, text=True
        )
    if cores:
        # Before the first thread starts, so that all threads inherit the cores.
        os.sched_setaffinity(process.pid, cores)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(DRAIN_SECONDS + 15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()


def heard(process: Process) -> str:
    """Returns the process's next line.

    Raises: RuntimeError if the process has ended.
    """
    assert process.stdout
    if line := process.stdout.readline().strip():
        return line
    raise RuntimeError(f"{process.args} has ended with {process.wait()}; see {LOG}")


@contextlib.contextmanager
def servers(count: int, gap_ms: float = 0, cores: Cores = ()) -> Iterator[list[str]]:
    """Runs servers with a token every `gap_ms`, or all at once; yields their gRPC addresses."""
    with contextlib.ExitStack() as stack:
        addresses = []
        for number in range(count):
            command = [sys.executable, "-m", "benchmarks.instant", str(gap_ms)]
            process = stack.enter_context(begun(command, cores[number : number + 1], says=True))
            addresses.append(f"127.0.0.1:{heard(process)}")
        yield addresses


@contextlib.contextmanager
def start_gateway(settings: Path, number: int, cores: Cores = (), more: str = "") -> Iterator[Process]:
    """Runs a gateway process that listens on the port of that number; `more` is a further package path."""
    command = [sys.executable, "-m", "gateway", "serve", str(settings), str(number)]
    own = [str(ROOT), str(ROOT / "files"), *filter(None, [os.environ.get("PYTHONPATH")]), more]
    path = ":".join(own) if more else ""
    with begun(command, cores[number : number + 1], path, into=log_of(settings, number)) as process:
        listens(json.loads(settings.read_text())["listen"]["ports"][number], process)
        yield process


def log_of(settings: Path, number: int) -> Path:
    """Returns the audit file of the gateway with that number."""
    return settings.with_suffix(f".{number}.log")


def inside(logs: Sequence[Path], requests: int) -> dict[str, float]:
    """Returns milliseconds from a request's headers to its first token within the gateways, of the latest requests.

    A client's further time is the transfer between the two, and both event loops' turns.
    """
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines() if line.startswith("{")]
    latest = sorted((line for line in lines if line.get("endpoint") == "chat"), key=lambda line: str(line["time"]))
    delays = [line["first_token_ms"] or 0.0 for line in latest[-requests:]]
    slowest = sorted(latest[-requests:], key=lambda line: -(line["first_token_ms"] or 0.0))[:8]
    print("slowest within:", [(line["time"], line["first_token_ms"]) for line in slowest], file=sys.stderr, flush=True)
    cuts = statistics.quantiles(delays, n=100) if len(delays) > 1 else [-1.0] * 100
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1)}


def settings_file(work: Path, addresses: Sequence[str], ports: Sequence[int]) -> Path:
    """Writes the gateway's settings: a chat model and an embedder on these servers, without keys."""
    names = [f"here/{number}" for number in range(len(addresses))]
    shared = {"servers": names, "created": 0}
    llm = {"kind": "llm", "context_tokens": 1_000_000, "files": str(written(work / "weights"))}
    embedder = {"kind": "embedder", "dimensions": 768, "max_items": 64, "max_tokens": 512}
    settings = {
        "listen": {"ports": list(ports), "drain_seconds": DRAIN_SECONDS, "notice_seconds": 1},
        "limits": {"request_seconds": 3600},
        "servers": {name: {"grpc": address} for name, address in zip(names, addresses, strict=True)},
        "models": {"llama": shared | llm, "nomic": shared | embedder},
    }
    path = work / f"settings-{ports[0]}.json"
    path.write_text(json.dumps(settings))
    return path


def litellm(work: Path, behind: int, port: int) -> list[str]:
    """Returns the command of LiteLLM's proxy before the gateway; one process without logs."""
    config = work / "litellm.yaml"
    address = f"http://127.0.0.1:{behind}/v1"
    model = {"model_name": "llama", "litellm_params": {"model": "openai/llama", "api_base": address, "api_key": "sk-x"}}
    config.write_text(json.dumps({"model_list": [model], "general_settings": {"master_key": KEY}}))
    run = "import sys; from litellm import run_server; sys.exit(run_server())"
    words = ["--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    return [sys.executable, "-c", run, *words]


def listens(port: int, process: Process) -> None:
    """Waits until the process answers at this port.

    Raises: TimeoutError without an answer in time, or if the process has ended.
    """
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens on port {port}; see {LOG}")


def free_ports(count: int) -> list[int]:
    """Returns ports that no program listens on."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in held:
            listener.bind(("127.0.0.1", 0))
        return [int(listener.getsockname()[1]) for listener in held]


def cpu_seconds(pid: int) -> float:
    """Returns CPU seconds of a process and its children, since a gateway renders templates in child processes."""
    children = [Path(task, "children").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / TICKS
    return own + sum(cpu_seconds(int(child)) for row in children for child in row)


def resident_kib(pid: int) -> int:
    """Returns the memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**10
