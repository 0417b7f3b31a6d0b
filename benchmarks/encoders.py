"""Compares reranker and embedder behind the real Triton with naive backends and the physical limit, in one run.

    python -m benchmarks.encoders                          the whole table on cuda:0
    python -m benchmarks.encoders --device cpu --small     the same code in a minute on a laptop

Prints a table and, last, one JSON line. Every case runs `--runs` times, ours and naive in turn, so that a warming GPU
or other load affects both; figures are medians over runs. All requests come over real gRPC or HTTP from separate
processes.
"""

import argparse
import dataclasses
import json
import shlex
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import cases, checkpoints, clients, gpu, limit, neighbour, repositories, runs, table, triton
from benchmarks.cases import Workload
from benchmarks.clients import Clients
from benchmarks.runs import Runs

CLIENT_PROCESSES = 8
LEAVE_MIB = 1024


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Returns the result, which the last line also prints."""
    options = parser().parse_args(words)
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        result = measure(options, work, stack)
    print(table.text(result))
    print(json.dumps(result), flush=True)
    return result


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.encoders", description=__doc__.split("\n")[0])
    made.add_argument("--device", default="cuda:0")
    made.add_argument("--small", action="store_true", help="small random models and a few clients, for a CPU")
    made.add_argument(
        "--cases", nargs="*", default=[], choices=[*cases.NAMED, []], help="those of the table unless named"
    )
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--seconds", type=float, default=3.0, help="length of one run over gRPC; HTTP takes half of it")
    made.add_argument("--without-naive", action="store_true")
    made.add_argument("--fp8", action="store_true", help="ours once more with products=fp8, as a server of its own")
    made.add_argument("--without-http", action="store_true")
    made.add_argument("--neighbour", action="store_true", help="once more beside a process that fills the memory")
    made.add_argument("--seed", default="", help="any word: draws lengths and texts that nothing was tuned with")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="above the plan's parameters")
    return made


def measure(options: argparse.Namespace, work: Path, stack: ExitStack) -> dict[str, Any]:
    """Returns the result of a whole run: checkpoints, texts, limit, both servers, every case, a neighbour."""
    chosen = cases.chosen(options.cases, options.small)
    kinds = sorted({case.kind for case in chosen})
    say("random checkpoints and texts")
    weights = checkpoints.make(work / "checkpoints", options.device, options.small)
    workloads = [cases.write(case, weights[case.kind] / "tokenizer.json", work, options.seed) for case in chosen]
    say("matrix products, nothing else on the device")
    limits = limit.measured(options.device)
    seconds = start_twice(options, work, weights, kinds)
    before = gpu.used_mib(options.device)
    server = stack.enter_context(our_server(options, work / "ours", weights, kinds))
    after = gpu.used_mib(options.device)
    rivals = {"ours": server}
    if not options.without_naive:
        say("starting the naive backends")
        rivals["naive"] = stack.enter_context(naive_server(options, work / "naive", weights, kinds))
    if options.fp8:
        say("starting ours with products in 8 bits")
        rivals["fp8"] = stack.enter_context(our_server(options, work / "fp8", weights, kinds, products="fp8"))
    crowd = stack.enter_context(clients.processes(CLIENT_PROCESSES if not options.small else 2))
    rows = [case_row(options, workload, rivals, crowd, limits, weights[workload.case.kind]) for workload in workloads]
    beside = beside_neighbour(options, workloads, server, crowd) if options.neighbour else {}
    return head(options, limits, seconds) | {
        "memory": {"planned_mib": planned_mib(kinds), "held_after_start_mib": after - before},
        "cases": rows,
        "neighbour": beside,
    }


def head(options: argparse.Namespace, limits: dict[str, float], seconds: list[float]) -> dict[str, Any]:
    """Returns the head of the result: machine, programs, time and command of the measurement."""
    command = f"python -m benchmarks.encoders {shlex.join(sys.argv[1:])}".strip()
    return {
        "benchmark": "encoders",
        "date": datetime.now(UTC).date().isoformat(),
        "command": command,
        "machine": gpu.machine(options.device),
        "small": options.small,
        "seed": options.seed,
        "runs": options.runs,
        "seconds_per_run": options.seconds,
        "limit_tflops": {name: round(value, 1) for name, value in limits.items()},
        "start_to_ready_seconds": {"first": round(seconds[0], 1), "again": round(seconds[1], 1)},
    }


def planned_mib(kinds: list[str]) -> int:
    """Returns MiB of the H100 plan for a server of these encoders: weights, workspaces, contexts, tritonserver."""
    planned, _ = repositories.plan()
    return sum(planned[kind].memory_mib for kind in kinds) + repositories.SERVER_MIB


def start_twice(options: argparse.Namespace, work: Path, weights: dict[str, Path], kinds: list[str]) -> list[float]:
    """Returns seconds from start to ready: with empty compiler caches, and with full ones and a warm page cache."""
    seconds = []
    for number in (1, 2):
        say(f"starting ours, time {number}")
        with our_server(options, work / f"start-{number}", weights, kinds) as server:
            seconds.append(server.seconds_to_ready)
    return seconds


@contextmanager
def our_server(
    options: argparse.Namespace, work: Path, weights: dict[str, Path], kinds: list[str], **more: str
) -> Iterator[triton.Server]:
    """Runs a server of the shipped backends, with the parameters of the plan, those of `--set`, and `more`."""
    changes = dict(word.split("=", 1) for word in options.set) | more
    repositories.ours(work / "repository", weights, kinds, options.device, changes)
    with triton.serving(work / "repository", work / "run", work.parent / "compiled") as server:
        yield server


@contextmanager
def naive_server(
    options: argparse.Namespace, work: Path, weights: dict[str, Path], kinds: list[str]
) -> Iterator[triton.Server]:
    """Runs a server of the backends that guides describe."""
    repositories.naive(work / "repository", weights, kinds, options.device)
    with triton.serving(work / "repository", work / "run", work.parent / "compiled") as server:
        yield server


def case_row(
    options: argparse.Namespace,
    workload: Workload,
    rivals: dict[str, triton.Server],
    crowd: Clients,
    limits: dict[str, float],
    checkpoint: Path,
) -> dict[str, Any]:
    """Returns the row of one case: the limit, our server over both protocols, the naive server over gRPC."""
    case = workload.case
    say(case.name)
    flop = limit.flop_per_document(workload, json.loads((checkpoint / "config.json").read_text()))
    row: dict[str, Any] = dataclasses.asdict(case) | {
        "tokens_per_document": round(workload.tokens_per_document, 1),
        "gflop_per_document": round(flop / 1e9, 3),
        "limit_documents_per_second": round(limits["bf16"] * 1e12 / flop, 1),
    }
    how = Runs("grpc", options.runs, options.seconds, options.device)
    over_grpc = runs.in_turn(how, workload, rivals, crowd)
    row |= {name: summary(workload, readings, limits, flop) for name, readings in over_grpc.items()}
    if not options.without_http:
        how = replace(how, protocol="http", seconds=options.seconds / 2)
        over_http = runs.in_turn(how, workload, {"ours": rivals["ours"]}, crowd)
        row["ours_http"] = summary(workload, over_http["ours"], limits, flop)
    say("  " + "; ".join(f"{name} {side['documents_per_second']:.0f} docs/s, p50 {side['p50_ms']:.2f} ms"
                         for name in ("ours", "naive", "fp8", "ours_http") if (side := row.get(name))))  # fmt: skip
    return row


def summary(
    workload: Workload, readings: list[dict[str, float]], limits: dict[str, float], flop: float
) -> dict[str, Any]:
    """Returns the values of `runs.summary`, and the share of the limit."""
    figures = runs.summary(workload, readings)
    share = figures["documents_per_second"] * flop / (limits["bf16"] * 1e12)
    return figures | {"share_of_bf16_limit": round(share, 4)}


def beside_neighbour(
    options: argparse.Namespace, workloads: list[Workload], server: triton.Server, crowd: Clients
) -> dict[str, Any]:
    """Returns the row of our server over gRPC while another process holds all memory of the GPU except LEAVE_MIB."""
    with neighbour.filling(options.device, LEAVE_MIB) as held:
        say(f"beside a neighbour that holds {held} MiB")
        rows = {}
        for workload in workloads:
            how = Runs("grpc", options.runs, options.seconds / 2, options.device)
            readings = runs.in_turn(how, workload, {"ours": server}, crowd)["ours"]
            for key in ("documents_per_second", "p50_ms"):
                value = statistics.median(reading[key] for reading in readings)
                rows.setdefault(workload.case.name, {})[key] = round(value, 3)
        return {"held_mib": held, "left_mib": LEAVE_MIB, "cases": rows}


def say(text: str) -> None:
    """Prints progress on standard error."""
    print(f"benchmark: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
