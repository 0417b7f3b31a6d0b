"""An open-loop load: each request is sent at its due time, independent of earlier ones.

A closed loop hides a pause: its clients wait with the server, and unsent requests are neither late nor lost. Here a
pause of a second at 50 requests a second makes 50 late ones. The load runs in separate processes, so that other work of
the control machine does not stop it; counts are shared while it runs, outcomes come at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.client_protocols import WAYS, Answer, Client, Fault, Place, Question, differs
from benchmarks.outcomes import CUT, LOST, RIGHT, Outcome

SLACK_SECONDS = 1.0
"""Seconds of tolerance: a drain may begin between a stream's request and its first piece, or at the balancer's next
check."""
START_SECONDS = 60
TEXTS = (
    "a steam engine", "boilers make steam", "the sea is salt", "a man is eating food",
    "paris is the capital of france", "bananas are yellow", "rain falls on the hills", "who turned off the light",
)  # fmt: skip


@dataclass(frozen=True)
class Load:
    """The requests to send: `rate` a second, drawn by `seed`; `shares` are the weights of the ways, in their order.

    `long_percent` of the streams request `long_tokens`, which last longer than a drain; the other streams request
    `tokens`.
    """

    place: Place
    rate: float
    embedder: str
    llm: str
    shares: tuple[int, ...] = (7, 4, 7, 2)
    clients: int = 4
    tokens: int = 16
    long_tokens: int = 1800
    long_percent: float = 0.0
    drain_seconds: float = 60.0
    patience_seconds: float = 120.0
    seed: int = 1

    def question(self, way: str, draw: random.Random) -> Question:
        """Returns a question for this way."""
        if way != "stream":
            return Question(self.embedder, (draw.choice(TEXTS),))
        tokens = self.long_tokens if draw.random() * 100 < self.long_percent else self.tokens
        return Question(self.llm, (draw.choice(TEXTS[:2]),), tokens)


@dataclass
class Running:
    """A running load."""

    pipes: Sequence[Connection]
    counts: Any
    outcomes: list[Outcome] = field(default_factory=list)
    """Outcomes of every request, once `end` was called."""

    def so_far(self) -> dict[str, int]:
        """Returns the number of requests with an outcome so far, by verdict."""
        return {verdict: sum(self.counts[place::3]) for place, verdict in enumerate((RIGHT, LOST, CUT))}

    def end(self, patience_seconds: float) -> list[Outcome]:
        """Stops sending; every sent request then has its outcome."""
        for pipe in self.pipes:
            pipe.send("end")
        for pipe in self.pipes:
            self.outcomes += _received(pipe, patience_seconds)
        return self.outcomes


@contextlib.contextmanager
def running(load: Load, processes: int = 1) -> Iterator[Running]:
    """Sends the load from that many processes during the block, after each has asked every question once.

    Raises `AssertionError` if a question had no answer.
    """
    context = multiprocessing.get_context("spawn")  # gRPC does not survive a fork
    counts = context.RawArray("q", 3 * processes)
    pairs = [context.Pipe() for _ in range(processes)]
    started = [
        context.Process(target=_serve, args=(theirs, load, (number, processes), counts), daemon=True)
        for number, (_, theirs) in enumerate(pairs)
    ]
    for process in started:
        process.start()
    pipes = [ours for ours, _ in pairs]
    try:
        for pipe in pipes:
            _received(pipe, START_SECONDS + load.patience_seconds)
        begins = time.monotonic() + 0.1
        for pipe in pipes:
            pipe.send(begins)
        yield Running(pipes, counts)
    finally:
        for process in started:
            process.terminate()
            process.join()


def _received(pipe: Connection, seconds: float) -> Any:
    assert pipe.poll(seconds), f"a process of the load said nothing for {seconds:g} s"
    word, value = pipe.recv()
    assert word == "done", f"a process of the load ended: {value}"
    return value


def _serve(pipe: Connection, load: Load, part: tuple[int, int], counts: Any) -> None:
    """Runs a process of the load: ready, begin, …, end, outcomes."""

    def count(outcome: Outcome) -> None:
        counts[3 * part[0] + (RIGHT, LOST, CUT).index(outcome.verdict)] += 1

    async def work() -> list[Outcome]:
        async with Asking(load) as asking:
            await asking.first_answers()
            pipe.send(("done", None))
            begins = await asyncio.to_thread(pipe.recv)
            return await asking.drive(begins, part, pipe.poll, count)

    try:
        pipe.send(("done", asyncio.run(work())))
    except Exception as error:
        pipe.send(("error", f"{type(error).__name__}: {error}"))


class Asking:
    """The clients of one process, and the first answer to each question."""

    def __init__(self, load: Load) -> None:
        self.load, self.firsts = load, dict[Question, Answer]()
        self.clients = list[Client]()

    async def __aenter__(self) -> Asking:
        self.clients = [Client(self.load.place, self.load.patience_seconds) for _ in range(self.load.clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            await client.__aexit__()

    async def first_answers(self) -> None:
        """Asks each question of the load once, for comparison with later answers."""
        load = self.load
        protocols = [way for way, share in zip(WAYS, load.shares, strict=True) if share]
        lengths = [load.tokens, *([load.long_tokens] if load.long_percent else [])]
        questions = [("grpc", Question(load.embedder, (text,))) for text in TEXTS] if protocols != ["stream"] else []
        if "stream" in protocols:
            questions += [("stream", Question(load.llm, (text,), tokens)) for text in TEXTS[:2] for tokens in lengths]
        answers = await asyncio.gather(*(self.clients[0].ask(way, question) for way, question in questions))
        self.firsts = {question: answer for (_, question), answer in zip(questions, answers, strict=True)}

    async def drive(
        self, begins: float, part: tuple[int, int], is_finished: Callable[[], bool], count: Callable[[Outcome], None]
    ) -> list[Outcome]:
        """Returns outcomes of all requests due before `over`: each `part[1]`-th one, beginning with `part[0]`."""
        loop, draw = asyncio.get_running_loop(), random.Random(self.load.seed * 1000 + part[0])
        tasks = list[asyncio.Task[Outcome]]()
        for number in itertools.count(part[0], part[1]):
            due = begins + number / self.load.rate
            await asyncio.sleep(max(0.0, due - loop.time()))
            if is_finished():
                break
            (way,) = draw.choices(WAYS, self.load.shares)
            client = self.clients[number // part[1] % len(self.clients)]
            tasks.append(loop.create_task(self._outcome(client, due, way, self.load.question(way, draw))))
            tasks[-1].add_done_callback(lambda task: count(task.result()))
        return await asyncio.gather(*tasks)

    async def _outcome(self, client: Client, due: float, way: str, question: Question) -> Outcome:
        loop = asyncio.get_running_loop()
        sent, first = loop.time() - due, list[float]()
        try:
            answer = await client.ask(way, question, lambda: first.append(loop.time() - due))
            reason = differs(self.firsts[question], answer)
            return Outcome(due, way, LOST if reason else RIGHT, first[0] if first else loop.time() - due, sent, reason)
        except Fault as fault:
            verdict = CUT if is_cut(fault, loop.time(), self.load.drain_seconds) else LOST
            return Outcome(due, way, verdict, loop.time() - due, sent, str(fault))


def is_cut(fault: Fault, ended: float, drain_seconds: float) -> bool:
    """Returns True for a stream that had at least the time of a drain between its first piece and its end."""
    return fault.is_end and fault.pieces > 0 and ended - fault.first >= drain_seconds - SLACK_SECONDS
