"""What the gateway costs: time to the first token, token events a CPU second, an embedding; against gRPC itself.

    python -m benchmarks.door                                     1, 64 and 256 streams, five seconds each
    python -m benchmarks.door --streams 1 64 --seconds 2 --peer /path/to/a/venv/with/litellm/bin/python

The server behind it answers at once, so all that is measured is the way there and back: through one process of the
gateway, and over gRPC from the same client, which is the limit. LiteLLM, the peer, cannot speak these tensors; it gets
the gateway as its OpenAI server, and only its own process is counted. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.door_clients import KEY, Http, Seen, closed_loop, grpc_embedding, grpc_stream
from gateway.triton import Triton
from tests.gateway.weights import written

ROOT = Path(__file__).parents[1]
LOG = Path(tempfile.gettempdir()) / "door-servers.log"
TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 120
PEER_STREAMS = 64
"""LiteLLM needs half a minute for an answer to each of 256."""


def main(words: list[str] | None = None) -> dict[str, Any]:
    """The result that is also printed as the last line."""
    options = parser().parse_args(words)
    with tempfile.TemporaryDirectory(prefix="door-") as work:
        result = asyncio.run(measure(options, Path(work)))
    print(json.dumps(result), flush=True)
    return result


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.door", description=(__doc__ or "").split("\n")[0])
    made.add_argument("--streams", type=int, nargs="+", default=[1, 64, 256])
    made.add_argument("--tokens", type=int, default=64, help="of an answer")
    made.add_argument("--seconds", type=float, default=5.0, help="of each load")
    made.add_argument("--idle", type=int, default=10_000, help="connections that say nothing")
    made.add_argument("--peer", default="", help="a Python that has litellm[proxy]")
    return made


async def measure(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """All loads, one after the other, each way in turn."""
    with contextlib.ExitStack() as stack:
        behind = stack.enter_context(begun([sys.executable, "-m", "benchmarks.instant", str(options.tokens)]))
        grpc_port = int((behind.stdout or sys.stdin).readline())
        port = free_port()
        settings = settings_file(work, grpc_port, port)
        door = stack.enter_context(begun([sys.executable, "-m", "gateway", "serve", str(settings)]))
        await listens(port)
        direct, ways = Triton(f"127.0.0.1:{grpc_port}"), {"door": (Http(port), door.pid)}
        if options.peer:
            peer_port = free_port()
            peer = stack.enter_context(begun(litellm(options.peer, work, port, peer_port)))
            await listens(peer_port)
            ways["litellm"] = (Http(peer_port), peer.pid)
        loads = [{"streams": n, **await load(direct, ways, n, options.seconds)} for n in options.streams]
        return {
            "benchmark": "door",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
            "tokens": options.tokens,
            "loads": loads,
            "embedding": await embeddings(direct, ways["door"][0], options.seconds),
            "door_mib": resident_mib(door.pid),
            "idle": await idle(port, door.pid, options.idle, ways["door"][0], options.seconds),
        }


async def load(direct: Triton, ways: dict[str, tuple[Http, int]], streams: int, seconds: float) -> dict[str, Any]:
    """So many streams at once: over gRPC itself, then each other way."""
    found: dict[str, Any] = {}
    seen = await closed_loop(lambda: grpc_stream(direct), streams, seconds)
    found["grpc"] = {"first_ms": percentiles(seen), "events": seen.events}
    for name, (http, pid) in ways.items():
        if name == "litellm" and streams > PEER_STREAMS:
            continue
        before = cpu_seconds(pid)
        seen = await closed_loop(http.stream, streams, seconds)
        spent = cpu_seconds(pid) - before
        found[name] = {
            "first_ms": percentiles(seen),
            "added_ms": {
                name: round(value - found["grpc"]["first_ms"][name], 3) for name, value in percentiles(seen).items()
            },
            "events": seen.events,
            "events_per_cpu_second": round(seen.events / spent),
            "requests_per_cpu_second": round(seen.requests / spent, 1),
        }
        say(f"{streams} streams, {name}: {found[name]}")
    return found


async def embeddings(direct: Triton, http: Http, seconds: float) -> dict[str, Any]:
    """One text after the other, of one client."""
    limit = await closed_loop(lambda: grpc_embedding(direct), 1, seconds)
    seen = await closed_loop(http.embedding, 1, seconds)
    added = {name: round(value - percentiles(limit)[name], 3) for name, value in percentiles(seen).items()}
    return {"grpc_ms": percentiles(limit), "door_ms": percentiles(seen), "added_ms": added}


async def idle(port: int, pid: int, count: int, http: Http, seconds: float) -> dict[str, Any]:
    """What somebody who asks notices of so many connections that say nothing; the door lets go of the oldest."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    before = resident_mib(pid)
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(min(count, most - 1000))]
    held = len(os.listdir(f"/proc/{pid}/fd"))
    seen = await closed_loop(http.embedding, 1, seconds)
    for _, writer in made:
        writer.transport.abort()
    added = resident_mib(pid) - before
    return {"connections": len(made), "open_files": held, "added_mib": added, "embedding_ms": percentiles(seen)}


def percentiles(seen: Seen) -> dict[str, float]:
    """Milliseconds."""
    return {"p50": seen.milliseconds(50), "p99": seen.milliseconds(99)}


def settings_file(work: Path, grpc_port: int, port: int) -> Path:
    """The gateway's settings: a chat model and an embedder on the server that answers at once; no key is asked for."""
    shared = {"servers": ["here/main"], "created": 0}
    llm = {"kind": "llm", "context_tokens": 8192, "files": str(written(work / "weights"))}
    embedder = {"kind": "embedder", "dimensions": 768, "max_items": 64, "max_tokens": 512}
    told = {
        "listen": {"ports": [port]},
        "servers": {"here/main": {"grpc": f"127.0.0.1:{grpc_port}"}},
        "models": {"llama": shared | llm, "nomic": shared | embedder},
    }
    path = work / "settings.json"
    path.write_text(json.dumps(told))
    return path


def litellm(python: str, work: Path, behind: int, port: int) -> list[str]:
    """The command of LiteLLM's proxy before the gateway; one process, nothing logged."""
    config = work / "litellm.yaml"
    address = f"http://127.0.0.1:{behind}/v1"
    model = {"model_name": "llama", "litellm_params": {"model": "openai/llama", "api_base": address, "api_key": "sk-x"}}
    config.write_text(json.dumps({"model_list": [model], "general_settings": {"master_key": KEY}}))
    program = str(Path(python).parent / "litellm")
    return [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]


@contextlib.contextmanager
def begun(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The process runs; at the end it is gone."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'files'}", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with LOG.open("a") as log:
        to = subprocess.PIPE if "benchmarks.instant" in command else log
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=to, stderr=log, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


async def listens(port: int) -> None:
    """Somebody answers there.

    Raises: TimeoutError.
    """
    async with asyncio.timeout(START_SECONDS):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.1)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """Of all threads of a process, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> int:
    """Memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


def say(text: str) -> None:
    """A line on standard error: the last line of standard output is the result's."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
