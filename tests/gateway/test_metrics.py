"""Metrics of the gateway's answers: token times, waiting time, and broken streams by reason."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from gateway.metrics import GAPS, REASONS, SECONDS, Histogram, Metrics
from tests.gateway.asking import (
    CHAT,
    OTHER_KEY,
    Conversation,
    RunningGateway,
    becomes,
    chat,
    in_loop,
    key_line,
    lines,
    running_gateway,
)
from tests.gateway.triton import Script

BROKEN = "enginehouse_gateway_streams_broken_total"


async def samples(front: RunningGateway) -> dict[str, float]:
    """Returns each sample of the page by its name and labels."""
    page = (await front.ask("/metrics", key=None)).body.decode()
    return {name: float(value) for name, value in re.findall(r"^(\w+\{.*\}) (\S+)$", page, re.MULTILINE)}


@in_loop
async def test_a_streams_first_token_gaps_and_wait_are_measured(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await front.chat(stream=True, n=2)
        values = await samples(front)
    of = {
        name: values[f'enginehouse_gateway_{name}_seconds_count{{model="llama"}}'] for name in ("first_token", "queue")
    }
    assert of == {"first_token": 1, "queue": 1}
    assert values['enginehouse_gateway_token_gap_seconds_count{model="llama"}'] == 4  # three events a sequence
    assert values['enginehouse_gateway_token_gap_seconds_bucket{model="llama",le="+Inf"}'] == 4


@in_loop
async def test_an_unstreamed_answer_has_no_first_token_time(tmp_path: Path) -> None:
    """A first-token time would be that of the whole answer, which would make the metric useless."""
    async with running_gateway(tmp_path) as front:
        await front.chat()
        values = await samples(front)
    assert not [name for name in values if "first_token" in name or "token_gap" in name]
    assert values['enginehouse_gateway_request_seconds_count{endpoint="chat",model="llama"}'] == 1


@in_loop
async def test_waiting_for_a_server_is_measured_and_in_the_audits_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_gateway(tmp_path) as front:
        fleet = front.gateway.fleet
        front.triton.is_ready = False
        await fleet.look()
        running = asyncio.ensure_future(front.chat())
        await becomes(lambda: len(fleet._held) == 1)
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        front.triton.is_ready = True
        held = asyncio.get_running_loop().time() - before
        await fleet.look()
        assert (await running).status == 200
        values = await samples(front)
    assert values['enginehouse_gateway_queue_seconds_sum{model="llama"}'] >= held - 0.001
    assert lines(capsys)[0]["queued_ms"] >= 1000 * held - 1


async def leaves(front: RunningGateway, talk: Conversation) -> None:
    talk.left.set()


async def takes_nothing(front: RunningGateway, talk: Conversation) -> None:
    talk.takes.clear()
    front.triton.goes_on.set()
    (exchange,) = front.app._open_requests
    await becomes(lambda: exchange._is_sending)
    front.app.sweep(float("inf"))
    talk.takes.set()


async def is_revoked(front: RunningGateway, talk: Conversation) -> None:
    front.keys_file.write_text(json.dumps({"keys": [key_line(OTHER_KEY, "umbrella")]}))
    await front.gateway.refresh()
    front.app.sweep(0)


async def goes_on(front: RunningGateway, talk: Conversation) -> None:
    front.triton.goes_on.set()


async def is_stopped(front: RunningGateway, talk: Conversation) -> None:
    await front.app._cancel_open_requests()


def fault(code: grpc.StatusCode) -> Script:
    """Returns a script in which the model fails after its first event."""
    return Script(error=(code, "a fault"), error_after=2, halts_after=1)


@pytest.mark.parametrize(
    ("end", "script", "strikes"),
    [
        ("", Script(halts_after=1), goes_on),
        ("left", Script(halts_after=1), leaves),
        ("stuck", Script(halts_after=1), takes_nothing),
        ("invalid_api_key", Script(halts_after=1), is_revoked),
        ("cut", Script(halts_after=1), is_stopped),
        ("upstream_error", fault(grpc.StatusCode.INTERNAL), goes_on),
        ("unavailable", fault(grpc.StatusCode.UNAVAILABLE), goes_on),
        ("timeout", fault(grpc.StatusCode.DEADLINE_EXCEEDED), goes_on),
        ("other", fault(grpc.StatusCode.INVALID_ARGUMENT), goes_on),
    ],
)
@in_loop
async def test_a_stream_that_breaks_is_counted_by_its_reason(
    tmp_path: Path, end: str, script: Script, strikes: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The status 200 was sent with the first event; the audit line's `end` has the reason."""
    async with running_gateway(tmp_path) as front:
        front.triton.script = script
        talk = front.opened(CHAT, chat(stream=True))
        running = asyncio.ensure_future(talk.run())
        await talk.until(lambda: b"Hel" in talk.answer.body)
        await strikes(front, talk)
        await running
        values = await samples(front)
    counts = {reason: values[f'{BROKEN}{{model="llama",reason="{reason}"}}'] for reason in REASONS}
    assert counts == {reason: float(reason == end) for reason in REASONS}
    line = next(entry for entry in lines(capsys) if entry["endpoint"] == "chat")
    assert (line["status"], line["end"]) == (200, end if end != "other" else "invalid_request_error")


@pytest.mark.parametrize("edges", [SECONDS, GAPS])
def test_a_histogram_bucket_counts_values_up_to_its_edge(edges: tuple[float, ...]) -> None:
    made = Histogram("name", "Text", ("model",), edges)
    for seconds in (edges[0], edges[0] * 1.01, 1e6):
        made.observe(("a",), seconds)
    values = dict(line.rsplit(" ", 1) for line in made.lines() if not line.startswith("#"))
    counts = [values[f'name_bucket{{model="a",le="{edge}"}}'] for edge in (*edges[:2], "+Inf")]
    assert (counts, values['name_count{model="a"}'], list(edges)) == (["1", "2", "3"], "3", sorted(edges))


def test_a_reason_is_never_text_of_a_client() -> None:
    metrics = Metrics()
    metrics.stream_ended("llama", 'x"} 1')
    assert f'{BROKEN}{{model="llama",reason="other"}} 1' in metrics.page()
