"""Two GPUs in two layouts under equal load: a server on each of them, and one server over both.

A share of the load is the load of one server in the first layout: full passes for both encoders, and as many sequences
for the LLM as its batch holds. The server over both gets as many shares as there are GPUs, from the same clients.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.reports.plan import memory_parts
from deploy.slices.host import Slice
from rehearsal.real_gpu import card
from rehearsal.real_gpu.generating import Generation, Prompts, Shape, generating
from rehearsal.real_gpu.passes import Passes, full_passes
from rehearsal.real_gpu.served import Deployed

WARM_SECONDS = 1.0
BEGIN_SECONDS = 120
POLL_SECONDS = 0.1
PLACED_PERCENT = 50
"""Percent of the plan's memory on a GPU below which a model must be elsewhere."""
RATES = ("reranker_documents_per_second", "embedder_documents_per_second", "llm_tokens_per_second")
Record = dict[str, Any]


@dataclass(frozen=True)
class Load:
    """A share of the load: the LLM's sequences, and seconds of full passes."""

    prompts: Prompts
    shape: Shape
    seconds: float
    tokenizers: Mapping[str, Path]
    """Tokenizers by kind of encoder."""
    small: bool = False


def one_per_gpu(servers: Sequence[Deployed], load: Load, work: Path) -> Record:
    """Measures throughput of the first server alone, and of all at once; passed if all answer well."""
    since, before = [server.now() for server in servers], [server.identity() for server in servers]
    with ExitStack() as stack:
        shares = [stack.enter_context(_passes(load, work, number)) for number, _ in enumerate(servers)]
        first_server = throughput(servers[:1], shares[:1], load)
        every = throughput(servers, shares, load)
    results = {"one_server": first_server, "two_servers": every, "two_servers_for_one": ratios(every, first_server)}
    return results | judged([first_server, every], servers, since, before)


def over_all(server: Deployed, gpus: int, load: Load, work: Path, split: Record | None) -> Record:
    """Measures one server over `gpus` GPUs under that many shares; beside `split`, the one-GPU servers."""
    since, before = [server.now()], [server.identity()]
    with ExitStack() as stack:
        shares = [stack.enter_context(_passes(load, work, number)) for number in range(gpus)]
        results: Record = {"one_server_over_both": (every := throughput([server] * gpus, shares, load))}
    if split:
        results["two_servers_for_it"] = ratios(split, every)
    return results | judged([every], [server], since, before)


def throughput(servers: Sequence[Deployed], shares: Sequence[Passes], load: Load) -> Record:
    """Returns rates of all models at once, with a share of the load per entry of `servers`; two entries give two."""
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        seen = [
            stack.enter_context(generating(server.http, server.model("llm"), load.shape, load.prompts))
            for server in servers
        ]
        wait_for_tokens(seen, len(servers) * len(load.shape.prompts))
        for seconds in (WARM_SECONDS, load.seconds):
            tokens, began = _tokens(seen), time.monotonic()
            running = [
                pool.submit(share.drive, server, list(share.workloads), seconds)
                for server, share in zip(servers, shares, strict=True)
            ]
            readings = [clients.result() for clients in running]
            llm = (_tokens(seen) - tokens) / (time.monotonic() - began)
    sums = {kind: sum(reading[kind].documents_per_second for reading in readings) for kind in readings[0]}
    figures: Record = {f"{kind}_documents_per_second": round(value, 1) for kind, value in sums.items()}
    errors = [error for clients in seen for error in clients.errors]
    return {"shares": len(servers), **figures, "llm_tokens_per_second": round(llm, 1), "errors": errors}


def wait_for_tokens(seen: Sequence[Generation], count: int) -> None:
    """Waits for a number of tokens in all.

    Raises: AssertionError if that takes too long, or a prompt failed.
    """
    end = time.monotonic() + BEGIN_SECONDS
    while _tokens(seen) < count:
        errors = [error for clients in seen for error in clients.errors]
        assert not errors, f"a prompt was answered with: {errors[0]}"
        assert time.monotonic() < end, f"{_tokens(seen)} tokens of {count} had come after {BEGIN_SECONDS} s"
        time.sleep(POLL_SECONDS)


def ratios(numerator: Record, denominator: Record) -> Record:
    """Returns each rate of `numerator` as a multiple of the rate of `denominator`."""
    return {rate: round(numerator[rate] / denominator[rate], 2) for rate in RATES if denominator.get(rate)}


def judged(
    readings: Sequence[Record], servers: Sequence[Deployed], since: Sequence[str], before: Sequence[Mapping[str, str]]
) -> Record:
    """Returns faults during the measurement; passed if there were none and every model answered."""
    complaints = [line for server, moment in zip(servers, since, strict=True) for line in server.complaints(moment)]
    restarted = [server.server.name for server, was in zip(servers, before, strict=True) if server.identity() != was]
    is_well = all(reading[rate] > 0 and not reading["errors"] for reading in readings for rate in RATES)
    passed = is_well and not complaints and not restarted
    return {"complaints": complaints, "restarted": restarted, "passed": passed}


def cards(machine: card.Machine, host: Slice) -> list[Record]:
    """Returns used MiB on each GPU beside the plan, and whether that shows its models on the right GPU."""
    rows = []
    for gpu, used in enumerate(card.used_mib_by_gpu(machine)):
        planned = sum(
            mib
            for server in host.servers
            if gpu in server.gpus
            for name, mib in memory_parts(server, gpu, host).items()
            if name not in ("free", "reserve", "usable")
        )
        rows.append(
            {"gpu": gpu, "planned_mib": planned, "used_mib": used, "placed": 100 * used >= PLACED_PERCENT * planned}
        )
    return rows


def _passes(load: Load, work: Path, number: int) -> AbstractContextManager[Passes]:
    (folder := work / str(number)).mkdir()
    return full_passes(load.tokenizers, folder, load.small)


def _tokens(seen: Sequence[Generation]) -> int:
    return sum(clients.tokens for clients in seen)
