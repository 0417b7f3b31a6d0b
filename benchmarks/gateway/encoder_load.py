"""Both encoders in the real Triton, under full passes for as long as another benchmark measures beside them."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks import cases, checkpoints, clients, repositories, triton
from benchmarks.clients import Load

CASES = {"reranker": "rerank-512", "embedder": "embed-512"}
CLIENT_PROCESSES = 4
SPELL_SECONDS = 4.0
"""Length of one measurement of full passes in seconds; measurements repeat until the block ends."""
Loaded = Callable[[], AbstractContextManager[dict[str, list[float]]]]


@contextmanager
def encoders(work: Path, device: str = "cuda:0", small: bool = False) -> Iterator[tuple[triton.Server, Loaded]]:
    """Yields the server, and a context manager that keeps both encoders busy and collects documents per second of each
    measurement."""
    weights = checkpoints.make(work / "checkpoints", device, small)
    workloads = {
        kind: cases.write(case, weights[kind] / "tokenizer.json", work)
        for kind, name in CASES.items()
        for case in cases.chosen([name], small)
    }
    repositories.ours(work / "repository", weights, list(CASES), device, {})
    count = 1 if small else CLIENT_PROCESSES
    with (
        triton.serving(work / "repository", work / "run", work / "compiled") as server,
        clients.processes(count) as first,
        clients.processes(count) as second,
    ):
        crowds = dict(zip(CASES, (first, second), strict=True))

        def spell(kind: str) -> float:
            workload = workloads[kind]
            load = Load("grpc", server.grpc, kind, str(workload.path), workload.case.clients, SPELL_SECONDS)
            return float(crowds[kind].drive(load).documents_per_second)

        @contextmanager
        def loaded() -> Iterator[dict[str, list[float]]]:
            rates: dict[str, list[float]] = {kind: [] for kind in CASES}
            ended = threading.Event()

            def drive(kind: str) -> None:
                while not ended.is_set():
                    rates[kind].append(spell(kind))

            with ThreadPoolExecutor() as pool:
                running = [pool.submit(drive, kind) for kind in CASES]
                try:
                    yield rates
                finally:
                    ended.set()
            for future in running:
                future.result()

        yield server, loaded


def rates_of(documents: dict[str, list[float]]) -> dict[str, float]:
    """Returns the median of the documents per second of each encoder."""
    return {kind: round(statistics.median(rates), 1) for kind, rates in documents.items()}
