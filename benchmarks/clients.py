"""Client processes that keep a server busy: each thread sends its next request after the last answer.

Processes, because one Python process cannot send fast enough to load the server; kept alive between runs, because
starting them costs more than a run. They read requests from the workload's file and agree on the start by the clock.
"""

import json
import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import calls

RAMP_SECONDS = 0.7
"""Seconds from the first request to the first counted request, until every queue is as full as it gets."""
REPLY_SECONDS = 300


@dataclass(frozen=True)
class Load:
    """A run: the server asked, the requests, the number of clients, the seconds."""

    protocol: str
    address: str
    model: str
    workload: str
    clients: int
    seconds: float


@dataclass(frozen=True)
class Reading:
    """Results of one run: documents answered within its window and the time each request took."""

    documents: float
    seconds: float
    latencies_ms: np.ndarray
    client_cpu_seconds: float
    answered: int
    """Documents from the first request to the last answer, including those outside the window."""
    whole_seconds: float
    """Seconds from the first request to the last answer, rounded up."""

    @property
    def documents_per_second(self) -> float:
        """Returns documents a second: each request counts by the share of its time inside the window."""
        return self.documents / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """Returns the milliseconds that `percent` of the requests stayed under."""
        return float(np.percentile(self.latencies_ms, percent))


@dataclass(frozen=True)
class Part:
    """The part of a Reading from one client, or from all clients of one process."""

    documents: float
    latencies_ms: np.ndarray
    answered: int
    ended: float
    """Moment of the last answer, by the monotonic clock that all processes share."""
    cpu_seconds: float = 0.0


class Clients:
    """The client processes. `drive` runs one load on as many processes as the load has clients for."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes

    def drive(self, load: Load) -> Reading:
        """Returns the results of one run; an answer with a wrong shape or non-finite values stops the benchmark."""
        used = self._pipes[: min(len(self._pipes), load.clients)]
        for pipe in used:
            pipe.send(("prepare", load))
        _replies(used)
        begins = time.monotonic() + 0.1
        for number, pipe in enumerate(used):
            pipe.send(("go", (begins, list(range(number, load.clients, len(used))))))
        parts = _replies(used)
        latencies = np.concatenate([part.latencies_ms for part in parts])
        return Reading(
            documents=sum(part.documents for part in parts),
            seconds=load.seconds,
            latencies_ms=latencies,
            client_cpu_seconds=sum(part.cpu_seconds for part in parts),
            answered=sum(part.answered for part in parts),
            whole_seconds=max(part.ended for part in parts) - begins,
        )


@contextmanager
def processes(count: int) -> Iterator[Clients]:
    """Yields `count` client processes and ends them at the end."""
    context = multiprocessing.get_context("spawn")  # gRPC does not survive a fork
    pairs = [context.Pipe() for _ in range(count)]
    started = [context.Process(target=serve, args=(theirs,), daemon=True) for _, theirs in pairs]
    for process in started:
        process.start()
    try:
        yield Clients([ours for ours, _ in pairs])
    finally:
        for ours, _ in pairs:
            ours.send(("end", None))
        for process in started:
            process.join(10)


def _replies(pipes: list[Connection]) -> list[Any]:
    values = []
    for pipe in pipes:
        if not pipe.poll(REPLY_SECONDS):
            raise AssertionError(f"a client process said nothing for {REPLY_SECONDS} s")
        word, value = pipe.recv()
        if word == "error":
            raise AssertionError(f"a client stopped: {value}")
        values.append(value)
    return values


def serve(pipe: Connection) -> None:
    """Runs one client process: prepare, go, prepare, go, …, end."""
    prepared: tuple[Load, list[Any]] | None = None
    while True:
        word, value = pipe.recv()
        try:
            if word == "end":
                return
            if word == "prepare":
                prepared = (value, _prepared(value))
                pipe.send(("ready", None))
            elif word == "go":
                assert prepared is not None
                pipe.send(("done", _run(*prepared, *value)))
        except Exception as error:
            pipe.send(("error", f"{type(error).__name__}: {error}"))


def _prepared(load: Load) -> list[Any]:
    requests = json.loads(Path(load.workload).read_text("utf-8"))
    return [(calls.tensors(request, load.protocol), request["options"], _items(request)) for request in requests]


def _items(request: dict[str, Any]) -> int:
    return len(request.get("passages") or request["texts"])


def _run(load: Load, requests: list[Any], begins: float, clients: list[int]) -> Part:
    results: list[Any] = []
    threads = [threading.Thread(target=_client, args=(load, requests, begins, client, results)) for client in clients]
    before = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return Part(
        documents=sum(result.documents for result in results),
        latencies_ms=np.concatenate([result.latencies_ms for result in results]),
        answered=sum(result.answered for result in results),
        ended=max(result.ended for result in results),
        cpu_seconds=time.process_time() - before,
    )


def _client(load: Load, requests: list[Any], begins: float, client: int, results: list[Any]) -> None:
    try:
        results.append(_closed_loop(load, requests, begins, client))
    except Exception as error:
        results.append(error)


def _closed_loop(load: Load, requests: list[Any], begins: float, client: int) -> Part:
    call = calls.connect(load.protocol, load.address, load.model)
    first, last = begins + RAMP_SECONDS, begins + RAMP_SECONDS + load.seconds
    documents, answered, ended, latencies, turn = 0.0, 0, begins, [], client * 7
    time.sleep(max(0.0, begins - time.monotonic()))
    while (sent := time.monotonic()) < last:
        inputs, options, items = requests[turn % len(requests)]
        answer = call(inputs, options)
        ended = time.monotonic()
        _check(answer, items)
        answered += items
        documents += items * share(sent, ended, first, last)
        # Includes each client's last request, which ends after the window: otherwise long requests would count less.
        if ended >= first:
            latencies.append((ended - sent) * 1000)
        turn += 1
    return Part(documents, np.array(latencies), answered, ended)


def share(sent: float, ended: float, first: float, last: float) -> float:
    """Returns the share of the time from `sent` to `ended` that lies between `first` and `last`.

    With whole requests of a hundred documents, a window of a second would be exact to only 1.5 %.
    """
    return max(0.0, min(ended, last) - max(sent, first)) / (ended - sent)


def _check(answer: calls.Answer, items: int) -> None:
    values = answer["scores"] if "scores" in answer else answer["embeddings"]
    # The naive backends return no axis of rows, so only the number of values is compared.
    count = values.size if "scores" in answer else values.size // values.shape[-1]
    if count != items or not np.isfinite(values).all():
        raise AssertionError(f"asked for {items} items, got an answer of shape {values.shape}")
