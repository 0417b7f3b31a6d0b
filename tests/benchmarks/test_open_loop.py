"""An open-loop load: each request counts once, as right, lost or cut, with its time, way and reason."""

import asyncio
import itertools
import random
import time
from collections import Counter

import pytest

from benchmarks.client_protocols import Fault
from benchmarks.open_loop import TEXTS, Asking, Load, is_cut, running
from benchmarks.outcomes import LOST, RIGHT, Outcome, by_phase, figures, losses, merged
from tests.benchmarks.stand_in import BROKEN, EMBEDDER, LLM, REFUSED, SILENT, WRONG, StandIn, serving

ONLY = {"http": (1, 0, 0, 0), "http-new": (0, 1, 0, 0), "grpc": (0, 0, 1, 0), "stream": (0, 0, 0, 1)}
FIRST_QUESTIONS = {EMBEDDER: len(TEXTS), LLM: 2}


def outcomes_of(server: StandIn, requests: int, way: str = "", **more: float) -> list[Outcome]:
    """Sends a thousand requests a second from one client, in one way or in all ways; returns their outcomes."""
    load = Load(server.place, 1000, EMBEDDER, LLM, clients=1, **({"shares": ONLY[way]} if way else {}), **more)
    left = iter([False] * requests)

    async def drive() -> list[Outcome]:
        async with Asking(load) as asking:
            await asking.first_answers()
            return await asking.drive(time.monotonic(), (0, 1), lambda: next(left, True), lambda _: None)

    return asyncio.run(drive())


def nth(model: str, number: int) -> tuple[str, int]:
    """Returns the place in a script of the load's request of that number, after its first questions."""
    return model, FIRST_QUESTIONS[model] + number


def reasons(outcomes: list[Outcome]) -> list[str]:
    return [outcome.reason for outcome in outcomes if outcome.verdict == LOST]


def test_every_request_of_every_way_is_answered() -> None:
    with serving() as server:
        outcomes = outcomes_of(server, 60)
    assert reasons(outcomes) == [] and len(outcomes) == 60
    assert set(Counter(outcome.way for outcome in outcomes)) == {"http", "http-new", "grpc", "stream"}


def test_requests_are_sent_on_schedule_despite_failed_earlier_requests() -> None:
    """The first answer waits for the twentieth request."""
    with serving(crowd=FIRST_QUESTIONS[EMBEDDER]) as server:

        def refill() -> None:
            server.crowd, server.full = FIRST_QUESTIONS[EMBEDDER] + 20, asyncio.Event()

        load = Load(server.place, 1000, EMBEDDER, LLM, shares=ONLY["grpc"], clients=1)
        left = iter([False] * 20)

        async def drive() -> list[Outcome]:
            async with Asking(load) as asking:
                await asking.first_answers()
                refill()
                return await asking.drive(time.monotonic(), (0, 1), lambda: next(left, True), lambda _: None)

        assert reasons(asyncio.run(drive())) == []


@pytest.mark.parametrize(("way", "connections"), [("http", 1), ("http-new", 5)])
def test_a_client_keeps_its_connection_or_makes_new_ones(way: str, connections: int) -> None:
    """Five requests in sequence: each waits for the previous one."""
    with serving() as server:

        async def drive() -> None:
            load = Load(server.place, 1000, EMBEDDER, LLM, shares=ONLY[way], clients=1)
            async with Asking(load) as asking:
                for _ in range(5):
                    await asking.clients[0].ask(way, load.question(way, random.Random(1)))

        asyncio.run(drive())
    assert len(set(server.peers)) == connections


@pytest.mark.parametrize(
    ("way", "what", "reason"),
    [
        ("http", REFUSED, "404: Request for unknown model"),
        ("http", WRONG, "other numbers: off by 0.55"),
        ("http", BROKEN, "ServerDisconnectedError: Server disconnected"),
        ("http-new", REFUSED, "404: Request for unknown model"),
        ("grpc", REFUSED, "UNAVAILABLE: not ready"),
        ("grpc", WRONG, "other numbers: off by 0.55"),
        ("stream", REFUSED, "no room"),
        (
            "stream",
            WRONG,
            "another text: 18 characters instead of 18, from 1 on 'wrong wrong wrong' instead of 'right right right'",
        ),
        ("stream", BROKEN, "the stream ended before its final response"),
    ],
)
def test_a_lost_request_says_why(way: str, what: str, reason: str) -> None:
    model = LLM if way == "stream" else EMBEDDER
    with serving({nth(model, 2): what}) as server:
        outcomes = outcomes_of(server, 4, way, tokens=3)
    assert reasons(outcomes) == [reason]


@pytest.mark.parametrize("way", ["http", "grpc", "stream"])
def test_an_unanswered_request_counts_as_lost_after_the_time_limit(way: str) -> None:
    with serving({nth(LLM if way == "stream" else EMBEDDER, 1): SILENT}) as server:
        outcomes = outcomes_of(server, 3, way, patience_seconds=5)
    assert reasons(outcomes) == ["no answer in 5 s"]


@pytest.mark.parametrize(
    ("lived", "pieces", "is_end", "cut"),
    [(60.0, 900, True, True), (59.2, 900, True, True), (40.0, 900, True, False), (60.0, 0, True, False),
     (60.0, 900, False, False)],
)  # fmt: skip
def test_a_stream_counts_as_cut_only_after_the_whole_drain_time(
    lived: float, pieces: int, is_end: bool, cut: bool
) -> None:
    fault = Fault("UNAVAILABLE", pieces, 1000.0, is_end)
    assert is_cut(fault, 1000.0 + lived, drain_seconds=60) is cut


def test_processes_of_a_load_count_while_running_and_report_every_outcome() -> None:
    with serving() as server:
        with running(Load(server.place, 200, EMBEDDER, LLM), processes=2) as load:
            while load.so_far()[RIGHT] < 20:
                pass
            outcomes = load.end(30)
        assert load.so_far() == {"right": len(outcomes), "lost": 0, "cut": 0}
    dues = sorted(outcome.due for outcome in outcomes)
    assert all(later - sooner == pytest.approx(1 / 200) for sooner, later in itertools.pairwise(dues))


def test_a_first_question_without_an_answer_stops_the_load() -> None:
    with (
        serving({(EMBEDDER, 1): REFUSED}) as server,
        pytest.raises(AssertionError, match="a process of the load ended: Fault: UNAVAILABLE: not ready"),
        running(Load(server.place, 100, EMBEDDER, LLM)),
    ):
        pass


def outcome(due: float, seconds: float, verdict: str = RIGHT, way: str = "grpc", reason: str = "") -> Outcome:
    return Outcome(due, way, verdict, seconds, 0.002, reason)


def test_outcomes_are_summed_up_by_phase() -> None:
    before, during = [outcome(9.0, 0.010)] * 3, [outcome(10.0, 0.010), outcome(20.0, 0.030)]
    lost = outcome(12.5, 30.0, LOST, "http", "404: unknown model")
    outcomes = [*before, *during, lost]
    assert figures(by_phase(outcomes, begins=10.0, ends=20.0)) == {
        "sent": 6, "lost": 1, "cut": 0, "ways": {"grpc": 5, "http": 1},
        "sent_by_phase": {"before": 3, "during": 3, "after": 0},
        "p50_before": 10.0, "p50_during": 20.0, "p50_after": None,
        "p99_before": 10.0, "p99_during": 29.8, "p99_after": None, "load_late_ms": 2.0,
    }  # fmt: skip
    assert losses(outcomes, begins=10.0) == {
        "reasons": {"http: 404": 1},
        "losses": [{"at": 2.5, "way": "http", "reason": "404: unknown model"}],
    }


def test_changes_are_summed_up_together() -> None:
    changes = [by_phase([outcome(due, 0.010)], begins=5.0, ends=6.0) for due in (4.0, 7.0)]
    assert figures(merged(changes))["sent_by_phase"] == {"before": 1, "during": 0, "after": 1}
