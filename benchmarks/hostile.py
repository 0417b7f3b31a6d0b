"""Measures the effect of one tenant's bad requests on another: the longest gap between events, and memory.

    python -m benchmarks.hostile                                  all loads, ten seconds each: six minutes
    python -m benchmarks.hostile --loads deep-json schemas        two of them
    python -m benchmarks.hostile --loads schemas --apart          each body of a load separately
    python -m benchmarks.hostile --gateway OTHER/files files      another commit's gateway beside this one, load by load

It runs a gateway before a server that sends a token every `--gap-ms`. One tenant continuously streams long chats
(benchmarks/hostile_tenant.py), another sends the bodies of one load after the other (benchmarks/hostile_stranger.py,
benchmarks/hostile_bodies.py). Each load gets a new process. Memory is that of the process and its children, read 20
times a second; beyond the unit's `MemoryMax` it is killed, like by the kernel. `direct` is a stream without the
gateway, whose gaps come from the machine. Prints a table, and one JSON line last; exits 1 if a gap or the memory of the
last gateway is beyond the aim.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gateway.__main__ import machine, say
from benchmarks.gateway.clients import KEY
from benchmarks.gateway.cores import shares, usable
from benchmarks.gateway.processes import Process, begun, free_ports, heard, listens, servers, settings_file
from benchmarks.hostile_bodies import LOADS
from benchmarks.hostile_memory import MEMORY_MAX_MIB, Memory, family, kill, resident_mib
from benchmarks.hostile_stranger import STRANGER_KEY
from tests.gateway.asking import key_line

FILES = Path(__file__).parents[1] / "files"
CORES = {"gateway": 4, "server": 1, "client": 1, "stranger": 2}
"""Cores of each part on a machine with eight; the gateway's processes share the gateway's cores."""
AIM_GAP_MS, AIM_MIB = 100, MEMORY_MAX_MIB // 2
PATIENCE_SECONDS = 20.0
"""Seconds for streams to continue after a load; a longer gap is reported as at least this long."""
TOKENS = 100_000
"""Tokens of a stream: more than are sent during the measurement."""
CONTEXT_TOKENS = 131_072
ENCODER = {"max_items": 1024, "max_tokens": 512}
TEMPLATE = """{{ bos_token }}{% if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
HEAD = (
    "load",
    "gateway",
    "gap ms",
    "p99",
    "direct",
    "short chat",
    "/health",
    "RSS MiB",
    "PSS",
    "answers to the stranger",
)
Cores = dict[str, list[int]]


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Returns the result, which the last line also prints."""
    options = parser().parse_args(words)
    cores = shares(usable(), CORES)
    gateways = {named(files): files.resolve() for files in options.gateway}
    result: dict[str, Any] = {
        "benchmark": "hostile",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(cores),
        "seconds": options.seconds,
        "streams": options.streams,
        "gap_ms": options.gap_ms,
        "connections": options.connections,
        "aims": {"gap_ms": AIM_GAP_MS, "memory_mib": AIM_MIB},
        "loads": [],
    }
    for load, body in chosen(options.loads, options.apart):
        for name, files in gateways.items():
            with tempfile.TemporaryDirectory(prefix="hostile-") as made:
                row = measured(load, body, files, Path(made), options, cores)
            result["loads"].append({"load": load, "gateway": name, "load_average": round(os.getloadavg()[0], 1), **row})
            say(json.dumps(result["loads"][-1]))
    last = list(gateways)[-1]
    result["beyond"] = [row["load"] for row in result["loads"] if row["gateway"] == last and is_beyond(row)]
    print(table(result["loads"]))
    print(json.dumps(result), flush=True)
    return result


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=(__doc__ or "").split("\n")[0])
    made.add_argument("--gateway", type=Path, nargs="+", default=[FILES], help="folders `files` of checkouts")
    made.add_argument("--loads", nargs="+", choices=tuple(LOADS), default=tuple(LOADS))
    made.add_argument("--apart", action="store_true", help="each body by itself")
    made.add_argument("--seconds", type=float, default=10.0, help="of each load")
    made.add_argument("--streams", type=int, default=8, help="of the good tenant")
    made.add_argument("--gap-ms", type=float, default=20.0, help="between two tokens of the server")
    made.add_argument("--connections", type=int, default=4, help="of the bad tenant, all the time")
    return made


def chosen(loads: Sequence[str], apart: bool) -> list[tuple[str, int]]:
    """Returns the loads in order, each with the place of its only body, or -1; an empty load comes first."""
    pairs = [("none", -1)]
    for load in loads:
        pairs += [(load, place) for place in (range(len(list(LOADS[load]()))) if apart else (-1,))]
    return pairs


def named(files: Path) -> str:
    """Returns the commit of a folder, and whether it was changed since; outside a checkout the name of its parent."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(files), *words], capture_output=True, text=True, check=True).stdout

    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        if git("ls-files", "gateway"):
            return git("rev-parse", "--short", "HEAD").strip() + (git("status", "--short", "gateway") and " changed")
    return files.resolve().parent.name


def measured(
    load: str, body: int, files: Path, work: Path, options: argparse.Namespace, cores: Cores
) -> dict[str, Any]:
    """Returns gaps of the good tenant under the load, answers to the bad one, and the gateway's memory."""
    (port,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        (server,) = stack.enter_context(servers(1, options.gap_ms, cores.get("server", [])))
        gateway = stack.enter_context(start_gateway(settings(work, server, port), files, port, cores))
        asks = {"port": port, "direct": server, "streams": options.streams, "tokens": TOKENS}
        tenant = stack.enter_context(client("tenant", asks, cores.get("client", [])))
        stranger = None
        if load != "none":
            bad = {"load": load, "port": port, "connections": options.connections, "body": body}
            stranger = stack.enter_context(client("stranger", bad, cores.get("stranger", [])))
        before = resident_mib(gateway.pid)
        with Memory(gateway.pid) as memory:
            send_line(tenant, "go")
            if stranger:
                send_line(stranger, "go")
            time.sleep(options.seconds)
            if stranger:
                send_line(stranger, "stop")
            answers = json.loads(heard(stranger)) if stranger else {}
            send_line(tenant, f"{PATIENCE_SECONDS if gateway.poll() is None else 0}")
            seen = json.loads(heard(tenant))
        ended = gateway.poll()
    return {
        **seen,
        "memory_mib": {
            "before": round(before),
            "resident": round(memory.resident_mib),
            "proportional": round(memory.shared_mib),
        },
        "ended": "killed at its limit of memory" if memory.is_killed else None if ended is None else f"status {ended}",
        "answers": answers,
    }


@contextlib.contextmanager
def start_gateway(settings: Path, files: Path, port: int, cores: Cores) -> Iterator[Process]:
    """Runs a listening gateway with the code of the folder; ends it with its children."""
    command = [sys.executable, "-m", "gateway", "serve", str(settings)]
    log = settings.with_suffix(".log")
    with begun(command, cores.get("gateway", []), path=str(files), into=log) as process:
        listens(port, process)
        try:
            yield process
        finally:  # an endless computation does not react to any other signal
            kill(family(process.pid))


def client(name: str, words: dict[str, Any], cores: Sequence[int]) -> contextlib.AbstractContextManager[Process]:
    """Runs a ready client process; the bad tenant's client uses the remaining cores."""
    command = [sys.executable, "-m", f"benchmarks.hostile_{name}", json.dumps(words)]
    return ready(["nice", "-n", "19", *command] if name == "stranger" else command, cores)


@contextlib.contextmanager
def ready(command: list[str], cores: Sequence[int]) -> Iterator[Process]:
    """Returns the process once it has printed "ready"."""
    with begun(command, cores, says=True) as process:
        assert heard(process) == "ready"
        yield process


def send_line(process: Process, line: str) -> None:
    """Sends a line to the process."""
    assert process.stdin
    print(line, file=process.stdin, flush=True)


def settings(work: Path, server: str, port: int) -> Path:
    """Writes the gateway's settings: a model of each kind, default limits, and a key for each tenant."""
    path = settings_file(work, [server], [port])
    content = json.loads(path.read_text())
    del content["limits"]
    (work / "weights" / "chat_template.jinja").write_text(TEMPLATE)
    content["models"]["llama"] |= {"context_tokens": CONTEXT_TOKENS, "tool_parser": "hermes", "guided_decoding": True}
    shared = {"servers": content["models"]["nomic"]["servers"], "created": 0}
    content["models"]["nomic"] |= ENCODER
    content["models"]["bge"] = {**shared, **ENCODER, "kind": "reranker"}
    keys = work / "keys.json"
    keys.write_text(json.dumps({"keys": [key_line(KEY, "good"), key_line(STRANGER_KEY, "bad")]}))
    path.write_text(json.dumps({**content, "keys_file": str(keys)}))
    return path


def is_beyond(row: dict[str, Any]) -> bool:
    """Returns True if a gap or the memory exceeds its aim, or the process has ended."""
    is_uneven = row["gap_ms"]["longest"] > AIM_GAP_MS or not row["went_on"]
    return is_uneven or row["memory_mib"]["resident"] > AIM_MIB or row["ended"] is not None


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns a line for each load and gateway; `≥` marks a missing answer within the time limit."""
    lines = [HEAD, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) for line in lines)


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Returns a row's cells."""
    counts: dict[str, int] = {}
    for statuses in row["answers"].values():
        for status, count in statuses.items():
            counts[status] = counts.get(status, 0) + count
    least = "" if row["went_on"] else "≥ "
    return (
        row["load"] if len(row["answers"]) != 1 else f"{row['load']}: {next(iter(row['answers']))}",
        row["gateway"],
        f"{least}{row['gap_ms']['longest']:,.0f}",
        f"{row['gap_ms']['p99']:,.0f}",
        f"{row['direct_gap_ms']['longest']:,.0f}",
        f"{row['short_chat_ms']['longest']:,.0f}",
        f"{row['health_ms']['longest']:,.0f}",
        f"{row['memory_mib']['resident']:,}" + (f" ({row['ended']})" if row["ended"] else ""),
        f"{row['memory_mib']['proportional']:,}",
        ", ".join(f"{status}: {count}" for status, count in sorted(counts.items())),
    )


if __name__ == "__main__":
    sys.exit(1 if main()["beyond"] else 0)
