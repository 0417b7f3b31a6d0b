"""Runs a long mixed load on the shipped encoders: checks every answer, every refusal, and memory leaks.

    python -m benchmarks.soak                                   200,000 requests of 64 clients on cuda:0
    python -m benchmarks.soak --device cpu --small --requests 400

Right answers come from `oracle.py` before the server starts. It compares with the start: resident memory of all server
processes, the GPU's memory, and the process ids (a model process that died would have been replaced). Half of the
clients speak gRPC, half HTTP. Prints one JSON line last; exits 1 when anything was wrong.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import calls, checkpoints, encoders, gpu, mixture, repositories, triton
from benchmarks.encoders import say

WARM_PERCENT = 10
"""Share of the requests after which memory counts as stable: buffers have then met every kind of request."""
LEAK_MIB = 64
KINDS = ["embedder", "reranker"]
ROOT = Path(__file__).parents[1]


@dataclass
class Tally:
    """Results of one process's clients."""

    good: int = 0
    refused: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    doubtful: list[mixture.Doubt] = field(default_factory=list)
    """Answers beyond the bound, counted as good until `classify_doubtful` has examined their routing ties."""
    on_a_tie: int = 0


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Returns the result, which the last line also prints."""
    options = parser().parse_args(words)
    with tempfile.TemporaryDirectory(prefix="soak-") as work:
        result = measure(options, Path(work))
    print(json.dumps(result), flush=True)
    return result


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.split("\n")[0])
    made.add_argument("--device", default="cuda:0")
    made.add_argument("--small", action="store_true", help="small random models, for a CPU")
    made.add_argument("--requests", type=int, default=200_000)
    made.add_argument("--clients", type=int, default=64)
    made.add_argument("--processes", type=int, default=8)
    made.add_argument("--bad-percent", type=float, default=2.0)
    made.add_argument("--texts", type=int, default=800, help="texts of the pool; half as many pairs")
    made.add_argument("--seconds", type=float, default=480.0, help="stop sending after so long")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="above the plan's parameters")
    return made


def measure(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Returns the result of a soak: checkpoints, right answers, a server, all requests, and the server's remains."""
    say("random checkpoints and right answers")
    weights = checkpoints.make(work / "checkpoints", options.device, options.small)
    files = right_answers(options, work, weights)
    before_mib = gpu.used_mib(options.device)
    with encoders.our_server(options, work / "first", weights, KINDS) as server:
        first_seconds = server.seconds_to_ready
    with (
        encoders.our_server(options, work / "server", weights, KINDS) as server,
        gpu.peak_mib(options.device) as peak,
    ):
        family = server.processes()
        warm_requests = options.requests * WARM_PERCENT // 100
        say(f"ready after {server.seconds_to_ready:.1f} s; {warm_requests} requests until memory counts as stable")
        warm = drive(options, server, files, warm_requests, 1)
        stable = (server.resident_mib(), gpu.used_mib(options.device))
        say(f"{options.requests - warm_requests} requests more")
        began = time.monotonic()
        tally = drive(options, server, files, options.requests - warm_requests, 2)
        seconds = time.monotonic() - began
        left = (server.resident_mib(), gpu.used_mib(options.device))
        same = server.processes() == family
    for counts in (warm, tally):
        classify_doubtful(options, counts, files)
    return report(options, (first_seconds, server.seconds_to_ready), warm, tally, seconds) | judged(
        stable, left, peak[0] - before_mib, same, warm.faults + tally.faults
    )


def report(
    options: argparse.Namespace, starts: tuple[float, float], warm: Tally, tally: Tally, seconds: float
) -> dict[str, Any]:
    """Returns counts of requests and answers."""
    worst = {key: max(warm.worst[key], tally.worst[key]) for key in tally.worst}
    return {
        "benchmark": "soak",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": gpu.machine(options.device),
        "small": options.small,
        "clients": options.clients,
        "answered_right": warm.good + tally.good,
        "refused_right": warm.refused + tally.refused,
        "wrong": sum((warm.faults + tally.faults).values()),
        "faults": dict((warm.faults + tally.faults).most_common(8)),
        "answers_on_a_routing_tie": warm.on_a_tie + tally.on_a_tie,
        "worst_1_minus_cosine": worst["cosine"],
        "worst_1_minus_cosine_of_cut_vectors": worst["cosine of cut vectors"],
        "worst_logit_difference": worst["logit"],
        "requests_per_second": round((tally.good + tally.refused) / seconds, 1),
        "start_to_ready_seconds": {"first": round(starts[0], 1), "again": round(starts[1], 1)},
    }


def judged(
    stable: tuple[int, int], left: tuple[int, int], peak_mib: int, same: bool, faults: Counter[str]
) -> dict[str, Any]:
    """Returns memory against its stable level and the plan, restarts, and the verdict."""
    planned = encoders.planned_mib(KINDS)
    leaks = left[0] - stable[0] > LEAK_MIB or left[1] - stable[1] > LEAK_MIB
    return {
        "resident_mib": {"settled": stable[0], "end": left[0]},
        "gpu_mib": {"settled": stable[1], "end": left[1], "peak_of_server": peak_mib, "planned": planned},
        "leaks": leaks,
        "restarted": not same,
        "within_plan": peak_mib <= planned,
        "passed": not faults and not leaks and same and peak_mib <= planned,
    }


def right_answers(options: argparse.Namespace, work: Path, weights: dict[str, Path]) -> dict[str, str]:
    """Returns files of the pool and of its answers, computed by a separate process."""
    pool = mixture.pool(work, weights, options.texts, max(2, options.texts // 32), 16)
    files = {"pool": work / "pool.json", "answers": work / "answers.npz"}
    files["pool"].write_text(json.dumps(pool), "utf-8")
    command = [sys.executable, "-m", "benchmarks.oracle", options.device, str(files["pool"]), str(files["answers"])]
    subprocess.run(command, check=True, cwd=ROOT)
    return {name: str(path) for name, path in files.items()}


def classify_doubtful(options: argparse.Namespace, tally: Tally, files: dict[str, str]) -> None:
    """Counts each doubtful answer as a tie or as a fault, by possible ties that a separate process computes."""
    texts = sorted({text for doubt in tally.doubtful for text, _ in doubt})
    if not texts:
        return
    say(f"{len(tally.doubtful)} answers beyond the bound, of {len(texts)} texts: looking for routing ties")
    command = [sys.executable, "-m", "benchmarks.oracle", options.device, files["pool"], files["answers"] + ".ties.npz"]
    subprocess.run([*command, *map(str, texts)], check=True, cwd=ROOT)
    ties = {int(text): vectors for text, vectors in np.load(files["answers"] + ".ties.npz").items()}
    for doubt in tally.doubtful:
        fault = mixture.fault_of(doubt, ties, served_dtype(options))
        tally.on_a_tie += not fault
        if fault:
            tally.good -= 1
            tally.faults[fault] += 1


def drive(options: argparse.Namespace, server: triton.Server, files: dict[str, str], requests: int, seed: int) -> Tally:
    """Returns the tally of all clients, which share `requests` requests evenly."""
    context = multiprocessing.get_context("spawn")
    count = min(options.processes, options.clients)
    dtype = "fp32" if options.device == "cpu" else served_dtype(options)
    work = []
    for number in range(count):
        ours, theirs = context.Pipe()
        clients = [client for client in range(options.clients) if client % count == number]
        share = {client: requests // options.clients + (client < requests % options.clients) for client in clients}
        arguments = (theirs, server.grpc, server.http, files, dtype, options.bad_percent, share, seed, options.seconds)
        process = context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        work.append((process, ours))
    tally = Tally()
    for process, pipe in work:
        tally = added(tally, pipe.recv())
        process.join(10)
    return tally


def served_dtype(options: argparse.Namespace) -> str:
    """Returns the server's number format: the plan's unless `--set dtype=` sets another."""
    changes = dict(word.split("=", 1) for word in options.set)
    return changes.get("dtype") or repositories.plan()[0]["embedder"].parameters["dtype"]


def added(tally: Tally, later: Tally) -> Tally:
    """Returns the sum of two tallies."""
    worst = {key: max(tally.worst.get(key, 0.0), later.worst.get(key, 0.0)) for key in tally.worst | later.worst}
    doubtful, on_a_tie = tally.doubtful + later.doubtful, tally.on_a_tie + later.on_a_tie
    good, refused = tally.good + later.good, tally.refused + later.refused
    return Tally(good, refused, tally.faults + later.faults, worst, doubtful, on_a_tie)


def serve(
    pipe: Connection,
    grpc: str,
    http: str,
    files: dict[str, str],
    dtype: str,
    bad_percent: float,
    share: dict[int, int],
    seed: int,
    seconds: float,
) -> None:
    """Runs a client process, with a thread for each of its clients; sends back its tally."""
    tallies: list[Tally] = []
    until = time.monotonic() + seconds

    def run(client: int, requests: int) -> None:
        drawn = mixture.Mixture(Path(files["pool"]), Path(files["answers"]), dtype, bad_percent, seed * 1000 + client)
        protocol, address = ("http", http) if client % 2 else ("grpc", grpc)
        tallies.append(client_loop(drawn, protocol, address, requests, until))

    threads = [threading.Thread(target=run, args=item) for item in share.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = Tally()
    for tally in tallies:
        total = added(total, tally)
    if len(tallies) < len(threads):
        total.faults["a client's thread died"] += len(threads) - len(tallies)
    pipe.send(total)


def client_loop(drawn: mixture.Mixture, protocol: str, address: str, requests: int, until: float) -> Tally:
    """Returns the tally of one client, which sends its requests one after the other."""
    connections = {kind: calls.connect(protocol, address, kind) for kind in KINDS}
    tally = Tally()
    for sent in range(requests):
        if time.monotonic() > until:
            tally.faults["not sent: out of time"] += requests - sent
            break
        question = drawn.draw()
        try:
            answer: Any = connections[question.model](
                calls.tensors(question.request, protocol), question.request["options"]
            )
        except calls.Refused as refused:
            answer = refused
        fault = question.fault(answer)
        if fault:
            tally.faults[fault[:160]] += 1
        elif question.is_bad:
            tally.refused += 1
        else:
            tally.good += 1
    tally.worst, tally.doubtful = drawn.worst, drawn.doubtful
    return tally


if __name__ == "__main__":
    sys.exit(0 if main()["passed"] else 1)
