"""Measures the gateway: time to the first token, token events a core second, memory, and streams that a kill ends.

    python -m benchmarks.gateway                                  everything, with a hold of ten minutes
    python -m benchmarks.gateway --parts loads --peer DIR:DIR     where `pip install --target` put litellm[proxy]
    python -m benchmarks.gateway --parts hold --hold-seconds 60

With enough cores, each process has its own. Servers that send a token every `--gap-ms` show the time that the gateway
adds to gRPC itself, from the same clients. Servers that send all at once show the capacity of one gateway process.
LiteLLM, the peer, does not support these tensors; it gets the gateway as its OpenAI server, and only its own process
counts. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import resource
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gateway.clients import Http, closed_loop
from benchmarks.gateway.cores import shares, usable
from benchmarks.gateway.hold import hold, holding
from benchmarks.gateway.load import Load, seen_of
from benchmarks.gateway.processes import (
    begun,
    free_ports,
    inside,
    listens,
    litellm,
    log_of,
    resident_kib,
    servers,
    settings_file,
    start_gateway,
)

PARTS = ("loads", "idle", "hold")
SILENCE_MS = 3_600_000
PAUSE_SECONDS = 0.015
"""Seconds between the requests of the one stream at a person's pace."""
PEER_STREAMS = 64
"""Most streams for LiteLLM, which needs half a minute to answer 256."""
Cores = dict[str, list[int]]


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Returns the result, which the last line also prints."""
    options = parser().parse_args(words)
    cores = shares(usable())
    result = {"benchmark": "gateway", "at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(cores)}
    with tempfile.TemporaryDirectory(prefix="gateway-") as made:
        work = Path(made)
        if "loads" in options.parts:
            result |= loads(options, work, cores)
        if "idle" in options.parts:
            result |= idle(options, work, cores)
        if "hold" in options.parts:
            result["hold"] = hold(work, options.hold_streams, options.hold_seconds, options.hold_gap_ms, cores)
    print(json.dumps(result), flush=True)
    return result


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=(__doc__ or "").split("\n")[0])
    made.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    made.add_argument("--streams", type=int, nargs="+", default=[1, 64, 256])
    made.add_argument("--tokens", type=int, default=64, help="of an answer")
    made.add_argument("--paced-tokens", type=int, default=48, help="of an answer at the pace of a model")
    made.add_argument("--gap-ms", type=float, default=40.0, help="between two tokens of a server that takes its time")
    made.add_argument("--seconds", type=float, default=5.0, help="of each load")
    made.add_argument("--idle", type=int, default=10_000, help="connections that say nothing")
    made.add_argument("--idle-streams", type=int, default=512, help="streams that wait for their second token")
    made.add_argument("--hold-seconds", type=float, default=600.0)
    made.add_argument("--hold-streams", type=int, default=512, help="of two gateways together")
    made.add_argument("--hold-gap-ms", type=float, default=100.0)
    made.add_argument("--peer", default="", help="folders that have litellm[proxy], with colons between")
    return made


def machine(cores: Cores) -> dict[str, Any]:
    """Returns facts of the machine, and the cores of each process."""
    models = {line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")}  # fmt: skip
    settings = {name: os.environ[name] for name in ("GRPC_EXPERIMENTS",) if name in os.environ}
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": ", ".join(sorted(models)),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        "pinned": cores or "no: there are too few cores, and all processes share them",
        **({"environment": settings} if settings else {}),
    }


def loads(options: argparse.Namespace, work: Path, cores: Cores) -> dict[str, Any]:
    """Measures every load at a model's pace and at full speed, then embeddings."""
    paced = at_a_pace(options, work, cores)
    fast, embedding = at_once(options, work, cores)
    rows = [{"streams": n, "paced": paced[n], "at_once": fast[n]} for n in options.streams]
    return {"tokens": options.tokens, "gap_ms": options.gap_ms, "loads": rows, "embedding": embedding}


def at_a_pace(options: argparse.Namespace, work: Path, cores: Cores) -> dict[int, dict[str, Any]]:
    """Returns milliseconds to the first token by number of streams: over gRPC, and added by two gateway processes."""
    figures: dict[int, dict[str, Any]] = {}
    ports = free_ports(2)
    with contextlib.ExitStack() as stack:
        behind = stack.enter_context(servers(2, options.gap_ms, cores.get("server", [])))
        settings = settings_file(work, behind, ports)
        for number in range(len(ports)):
            stack.enter_context(start_gateway(settings, number, cores.get("gateway", [])))
        for streams in options.streams:
            # A single stream would give few first tokens, so its answers have one token and pauses between them.
            tokens, pause = (options.paced_tokens, 0.0) if streams > 1 else (1, PAUSE_SECONDS)
            spread = tokens * options.gap_ms / 1000
            targets = {"grpc": tuple(behind), "chat": tuple(str(port) for port in ports)}
            loads_by_way = {
                way: Load(way, at, streams, options.seconds + spread, tokens, spread, pause)
                for way, at in targets.items()
            }
            seen = {way: seen_of(load, cores.get("client", []))[0] for way, load in loads_by_way.items()}
            limit, gateway = seen["grpc"].milliseconds(), seen["chat"].milliseconds()
            figures[streams] = {
                "tokens": tokens,
                "first_tokens": {"grpc": len(seen["grpc"].seconds), "gateway": len(seen["chat"].seconds)},
                "grpc_ms": limit,
                "gateway_ms": gateway,
                "added_ms": added(gateway, limit),
                "inside_ms": inside([log_of(settings, number) for number in range(len(ports))], seen["chat"].requests),
            }
            say(f"{streams} streams, a token every {options.gap_ms} ms: {figures[streams]}")
    return figures


def at_once(options: argparse.Namespace, work: Path, cores: Cores) -> tuple[dict[int, dict[str, Any]], dict[str, Any]]:
    """Returns requests and events a core second by streams, of a gateway and LiteLLM; and an embedding's cost."""
    figures: dict[int, dict[str, Any]] = {}
    port, peer_port = free_ports(2)
    clients = cores.get("client", [])
    with contextlib.ExitStack() as stack:
        behind = stack.enter_context(servers(2, 0, cores.get("server", [])))
        gateway = stack.enter_context(start_gateway(settings_file(work, behind, [port]), 0, cores.get("gateway", [])))
        targets = {"gateway": (port, gateway.pid)}
        if options.peer:
            before = begun(litellm(work, port, peer_port), cores.get("peer", []), path=options.peer)
            peer = stack.enter_context(before)
            targets["litellm"] = (peer_port, peer.pid)
            listens(peer_port, peer)
        for streams in options.streams:
            direct, _ = seen_of(Load("grpc", tuple(behind), streams, options.seconds, options.tokens), clients)
            figures[streams] = {"grpc": {"first_ms": direct.milliseconds(), "events": direct.events}}
            for name, (at, pid) in targets.items():
                if name == "litellm" and streams > PEER_STREAMS:
                    continue
                seen, spent = seen_of(Load("chat", (str(at),), streams, options.seconds, options.tokens), clients, pid)
                figures[streams][name] = {
                    "first_ms": seen.milliseconds(),
                    "added_ms": added(seen.milliseconds(), direct.milliseconds()),
                    "events": seen.events,
                    "events_per_core_second": round(seen.events / spent),
                    "requests_per_core_second": round(seen.requests / spent, 1),
                }
                say(f"{streams} streams at once, {name}: {figures[streams][name]}")
            if "litellm" in figures[streams]:
                rates = [figures[streams][name]["requests_per_core_second"] for name in ("gateway", "litellm")]
                figures[streams]["times_litellm"] = round(rates[0] / rates[1], 1)
        encoders = {"grpc-embedding": tuple(behind), "embedding": (str(port),)}
        limit, ours = (
            seen_of(Load(way, at, 1, options.seconds), clients)[0].milliseconds() for way, at in encoders.items()
        )
    return figures, {"grpc_ms": limit, "gateway_ms": ours, "added_ms": added(ours, limit)}


def idle(options: argparse.Namespace, work: Path, cores: Cores) -> dict[str, Any]:
    """Returns the cost of streams that wait for a token, and the effect of silent connections on other requests."""
    (port,) = free_ports(1)
    clients = cores.get("client", [])
    with contextlib.ExitStack() as stack:
        behind = stack.enter_context(servers(1, SILENCE_MS, cores.get("server", [])))
        gateway = stack.enter_context(start_gateway(settings_file(work, behind, [port]), 0, cores.get("gateway", [])))
        with holding(port, 8, 2, clients[:1]):
            pass
        before = resident_kib(gateway.pid)
        with holding(port, options.idle_streams, 2, clients[:1]):
            after = resident_kib(gateway.pid)
        streams = {"streams": options.idle_streams, "kib_each": round((after - before) / options.idle_streams, 1)}
        connections = asyncio.run(silent(port, gateway.pid, options.idle, options.seconds))
    figures = {"gateway_mib": round(before / 1024), "idle_streams": streams, "idle": connections}
    say(str(figures))
    return figures


async def silent(port: int, pid: int, count: int, seconds: float) -> dict[str, Any]:
    """Returns memory and open files that `count` silent connections cost a gateway, which closes the oldest."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    before = resident_kib(pid)
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(min(count, most - 1000))]
    held = len(os.listdir(f"/proc/{pid}/fd"))
    seen = await closed_loop([Http(port).embedding()], seconds, lambda: asyncio.sleep(0))
    for _, writer in made:
        writer.transport.abort()
    result = {"connections": len(made), "open_files": held, "added_mib": round((resident_kib(pid) - before) / 1024)}
    return {**result, "embedding_ms": seen.milliseconds()}


def added(ours: dict[str, float], limit: dict[str, float]) -> dict[str, float]:
    """Returns milliseconds beyond the limit's, of each percentile."""
    return {name: round(value - limit[name], 3) for name, value in ours.items()}


def say(text: str) -> None:
    """Prints a line on standard error, since the last line of standard output is the result."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
