"""Runs of one case on running servers, started here or elsewhere: warm-up, runs in turn, medians.

It needs no torch, as the clients may be on another machine than the models.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from benchmarks import gpu
from benchmarks.cases import Workload
from benchmarks.clients import Clients, Load

WARM, MOST_WARMING = 0.05, 4
Reading = dict[str, float]


class Rival(Protocol):
    """A measured server."""

    def address(self, protocol: str) -> str:
        """Returns host and port for `grpc` or `http`."""

    def model(self, kind: str) -> str:
        """Returns the name of the server's `reranker` or `embedder`."""

    def cpu_seconds(self) -> float:
        """Returns CPU time of all the server's processes since their start."""


@dataclass(frozen=True)
class Elsewhere:
    """A server started elsewhere, by its addresses and the names of its models, by kind."""

    grpc: str
    http: str
    models: Mapping[str, str] = field(default_factory=dict)
    cpu: Callable[[], float] = lambda: 0.0

    def address(self, protocol: str) -> str:
        """Returns host and port for `grpc` or `http`."""
        return self.grpc if protocol == "grpc" else self.http

    def model(self, kind: str) -> str:
        """Returns the name of the model of this kind; by default the kind itself."""
        return self.models.get(kind, kind)

    def cpu_seconds(self) -> float:
        """Returns CPU seconds, as read by `cpu`; 0 without such a function."""
        return self.cpu()


@dataclass(frozen=True)
class Runs:
    """Settings of a case's runs: protocol, number of runs, seconds of each, and the watched GPU."""

    protocol: str
    runs: int
    seconds: float
    device: str


def in_turn(how: Runs, workload: Workload, rivals: Mapping[str, Rival], crowd: Clients) -> dict[str, list[Reading]]:
    """Returns readings of each warm rival, `how.runs` of each, with one run of each in turn."""
    readings: dict[str, list[Reading]] = {name: [] for name in rivals}
    short = replace(how, seconds=min(how.seconds, 1.0))
    for server in rivals.values():
        warm_up(lambda server=server: one_run(short, workload, server, crowd))
    for _ in range(how.runs):
        for name, server in rivals.items():
            readings[name].append(one_run(how, workload, server, crowd))
    return readings


def warm_up(run: Callable[[], Reading]) -> int:
    """Returns the number of runs until a run gains at most WARM over the last; at most MOST_WARMING.

    A padded backend meets a new shape with nearly every request, and is slower the first time.
    """
    rates = [run()["documents_per_second"]]
    while len(rates) < MOST_WARMING:
        rates.append(run()["documents_per_second"])
        if rates[-1] <= rates[-2] * (1 + WARM):
            break
    return len(rates)


def one_run(how: Runs, workload: Workload, server: Rival, crowd: Clients) -> Reading:
    """Returns the figures of one run; the server's CPU time covers the whole run, divided among all answers."""
    case = workload.case
    address, model = server.address(how.protocol), server.model(case.kind)
    load = Load(how.protocol, address, model, str(workload.path), case.clients, how.seconds)
    before = server.cpu_seconds()
    with gpu.strain(how.device) as strain:
        reading = crowd.drive(load)
    spent = server.cpu_seconds() - before
    return {
        "documents_per_second": reading.documents_per_second,
        "p50_ms": reading.percentile_ms(50),
        "p95_ms": reading.percentile_ms(95),
        "p99_ms": reading.percentile_ms(99),
        "server_cpu_ms_per_document": spent * 1000 / max(1, reading.answered),
        "server_cores": spent / reading.whole_seconds,
        "client_cores": reading.client_cpu_seconds / reading.whole_seconds,
        "requests": float(len(reading.latencies_ms)),
    } | strain


def summary(workload: Workload, readings: list[Reading]) -> dict[str, Any]:
    """Returns medians over runs, tokens a second, and every run's documents a second."""
    # Clock and power are missing in runs that were too short for a reading.
    in_every_run = set.intersection(*map(set, readings))
    keys = [key for key in readings[0] if key in in_every_run]
    figures: dict[str, Any] = {key: round(statistics.median(reading[key] for reading in readings), 4) for key in keys}
    figures["tokens_per_second"] = round(figures["documents_per_second"] * workload.tokens_per_document)
    figures["all_runs"] = [round(reading["documents_per_second"], 1) for reading in readings]
    return figures
