"""Tenants' shares of a process: turns for large work, bytes of bodies, and the worker processes."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from gateway.errors import ApiError
from gateway.lanes import Lane, Lanes
from gateway.load import Held, Line, Turns
from gateway.worker import Program, Refused
from tests.gateway.asking import becomes, in_loop


class Jobs:
    """Work that the test ends; `running` lists the tenants whose work has begun."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.running: list[str] = []
        self._ends: dict[int, asyncio.Event] = {}

    def begin(self, tenant: str) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._line.work(tenant, lambda: self._job(tenant)))

    async def _job(self, tenant: str) -> None:
        self.running.append(tenant)
        self._ends[len(self.running) - 1] = end = asyncio.Event()
        await end.wait()

    async def end(self, number: int) -> None:
        """Ends the work that began with this number, from 0, and lets waiting work begin."""
        self._ends[number].set()
        for _ in range(5):
            await asyncio.sleep(0)


async def rounds() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@in_loop
async def test_no_tenant_has_every_turn_and_turns_go_round() -> None:
    jobs = Jobs(Line(2))
    tasks = [jobs.begin(tenant) for tenant in ("bad", "bad", "bad", "good", "third")]
    await rounds()
    assert jobs.running == ["bad", "good"]
    await jobs.end(1)
    assert jobs.running == ["bad", "good", "third"]
    await jobs.end(0)
    assert jobs.running == ["bad", "good", "third", "bad"]
    await jobs.end(3)
    await jobs.end(4)
    await jobs.end(2)
    await asyncio.gather(*tasks)


@in_loop
async def test_a_full_waiting_line_is_refused_with_retry_after() -> None:
    jobs = Jobs(Line(1, waiting=2, most_waiting=3))
    tasks = [jobs.begin("bad") for _ in range(4)] + [jobs.begin("good"), jobs.begin("third")]
    await rounds()
    refused = [task.exception() for task in tasks if task.done()]
    refusals = [(error.status, error.retry_after) for error in refused if isinstance(error, ApiError)]
    assert (len(refused), refusals) == (2, [(429, 2), (503, 2)])
    for number in range(4):
        await jobs.end(number)
    assert jobs.running == ["bad", "good", "bad", "bad"]


@in_loop
async def test_a_short_input_does_not_wait_for_a_long_input() -> None:
    program = Program("tests.gateway.counting", {}, 1.0, "too much", most_more_bytes=2**28)
    lanes = Lanes(program, Turns(), 5)
    long = [asyncio.ensure_future(lanes.answer(tenant, b"for ever")) for tenant in ("bad", "worse", "worst")]
    await becomes(lambda: all(lane.is_busy for lane in lanes._long))
    assert bytes(await lanes.answer("good", b"count")) == b"1"
    answers = await asyncio.gather(*long, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["too much"] * 3


@in_loop
async def test_a_request_cancelled_while_waiting_takes_no_turn() -> None:
    jobs = Jobs(Line(1))
    first, left, second = (jobs.begin(tenant) for tenant in ("a", "b", "c"))
    await rounds()
    left.cancel()
    await rounds()
    await jobs.end(0)
    assert jobs.running == ["a", "c"]
    await jobs.end(1)
    await asyncio.gather(first, second)


@in_loop
async def test_a_cancelled_request_keeps_its_turn_until_its_work_ends() -> None:
    """A tenant that disconnects repeatedly would occupy any number of processes if each disconnect freed its turn."""
    jobs = Jobs(Line(1))
    left, waiting = jobs.begin("a"), jobs.begin("b")
    await rounds()
    left.cancel()
    await rounds()
    assert jobs.running == ["a"]
    await jobs.end(0)
    assert jobs.running == ["a", "b"]
    await jobs.end(1)
    await waiting


def test_bodies_of_a_tenant_and_of_all_are_bounded_and_free_again() -> None:
    held: Counter[str] = Counter()
    first, second, third = (Held(held, tenant, 100, 150) for tenant in ("bad", "bad", "good"))
    first.take(60)
    second.take(40)
    with pytest.raises(ApiError) as of_tenant:
        second.take(1)
    third.take(50)
    with pytest.raises(ApiError) as of_all:
        third.take(1)
    assert [(error.value.status, error.value.retry_after) for error in (of_tenant, of_all)] == [(429, 2), (503, 2)]
    for body in (first, second, third):
        body.release()
    assert held == {}


@in_loop
async def test_a_message_that_exceeds_its_time_or_memory_is_not_retried() -> None:
    """After a timeout the next message gets a new process; after a memory error the process continues."""
    program = Program("tests.gateway.counting", {}, 0.2, "too much", most_more_bytes=2**28)
    lane = Lane(program)
    with pytest.raises(Refused, match="too much"):
        await lane.answer(b"for ever")
    assert bytes(await lane.answer(b"count")) == b"1"
    with pytest.raises(Refused, match="too much"):
        await lane.answer(b"memory")
    assert bytes(await lane.answer(b"count")) == b"3"


@in_loop
async def test_a_process_that_does_not_start_is_a_temporary_error() -> None:
    with pytest.raises(ApiError) as refused:
        await Lane(Program("tests.gateway.no_such_program", {}, 1.0, "too much", most_more_bytes=2**28)).answer(b"")
    assert (refused.value.status, refused.value.retry_after) == (503, 5)
