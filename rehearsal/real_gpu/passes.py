"""Full passes on both encoders: texts of full length, enough at once that every pass has its whole budget of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cases, clients
from benchmarks.cases import Workload
from benchmarks.clients import Clients, Load, Reading
from rehearsal.real_gpu.served import Deployed

CASES = {"reranker": "rerank-512", "embedder": "embed-512"}
CLIENT_PROCESSES = 4


@dataclass(frozen=True)
class Passes:
    """Workloads and client processes, one set for each kind of encoder, so that both can be busy at once."""

    workloads: Mapping[str, Workload]
    crowds: Mapping[str, Clients]

    def drive(self, deployed: Deployed, kinds: Sequence[str], seconds: float) -> dict[str, Reading]:
        """Returns readings of the clients of each kind, run concurrently.

        Raises if an answer is missing or malformed.
        """
        with ThreadPoolExecutor() as pool:
            running = {kind: pool.submit(self._reading, deployed, kind, seconds) for kind in kinds}
            return {kind: future.result() for kind, future in running.items()}

    def _reading(self, deployed: Deployed, kind: str, seconds: float) -> Reading:
        workload, model = self.workloads[kind], deployed.model(kind).name
        load = Load("grpc", deployed.grpc, model, str(workload.path), workload.case.clients, seconds)
        return self.crowds[kind].drive(load)


@contextmanager
def full_passes(tokenizers: Mapping[str, Path], work: Path, small: bool) -> Iterator[Passes]:
    """Yields passes for every kind in `tokenizers`, the paths of tokenizer.json; `small` ones are for a CPU."""
    workloads = {
        kind: cases.write(case, tokenizers[kind], work)
        for kind in CASES
        if kind in tokenizers
        for case in cases.chosen([CASES[kind]], small)
    }
    count = 1 if small else CLIENT_PROCESSES
    with clients.processes(count) as first, clients.processes(count) as second:
        yield Passes(workloads, dict(zip(workloads, (first, second), strict=False)))
