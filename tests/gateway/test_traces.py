"""The requests for which the gateway asks Triton for a trace."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from gateway.exchange import Exchange
from gateway.traces import traceparent
from tests.gateway.asking import CHAT, RunningGateway, chat, in_loop, running_gateway
from tests.gateway.triton import Script

EMBEDDING = {"model": "nomic", "input": ["a", "b", "c", "d", "e"]}


def traces(front: RunningGateway) -> list[str]:
    """Returns the trace of each request to Triton; "" if it has none."""
    return [request.metadata.get("traceparent", "") for triton in front.tritons for request in triton.requests]


@in_loop
async def test_tracing_is_off_by_default(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await front.ask("/v1/embeddings", EMBEDDING)
        await front.chat()
        assert set(traces(front)) == {""}


@pytest.mark.parametrize("path", ["/v1/embeddings", CHAT])
@in_loop
async def test_a_trace_has_the_id_that_answer_and_audit_have(tmp_path: Path, path: str) -> None:
    async with running_gateway(tmp_path, trace_one_in=1) as front:
        answer = await front.ask(path, chat() if path == CHAT else EMBEDDING)
        trace_ids = {re.fullmatch(r"00-([0-9a-f]{32})-[0-9a-f]{16}-01", header)[1] for header in traces(front)}
    assert trace_ids == {answer.headers["x-request-id"]}


@in_loop
async def test_a_client_cannot_choose_what_is_traced(tmp_path: Path) -> None:
    own = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "tracestate": "a=b"}
    async with running_gateway(tmp_path, trace_one_in=2**31 - 1) as front:
        await front.ask(CHAT, chat(), headers=own)
        await front.ask("/v1/embeddings", EMBEDDING, headers=own)
        assert set(traces(front)) == {""}
    async with running_gateway(tmp_path, trace_one_in=1) as front:
        await front.ask(CHAT, chat(), headers=own)
        assert "abab" not in traces(front)[0] and "tracestate" not in front.triton.requests[0].metadata


def test_a_fixed_share_of_requests_is_traced() -> None:
    chosen = [number for number in range(1, 1001) if traceparent(f"{number:032x}", 100)]
    assert chosen == list(range(100, 1001, 100))


@in_loop
async def test_a_second_try_belongs_to_the_same_trace(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2, trace_one_in=1) as front:
        for triton in front.tritons:
            triton.script = Script(error=(grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size: 8"))
        await front.chat()
        assert len({trace[3:35] for trace in traces(front)}) == 1 and len(traces(front)) >= 2


@in_loop
async def test_all_parts_of_a_request_are_traced_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five texts make two parts: the model takes three per request."""
    numbers = itertools.count(1)
    made = Exchange.__init__

    def numbered(exchange: Exchange, *arguments: Any) -> None:
        made(exchange, *arguments)
        exchange.identity = f"{next(numbers):032x}"

    monkeypatch.setattr(Exchange, "__init__", numbered)
    async with running_gateway(tmp_path, trace_one_in=2) as front:
        for _ in range(2):
            await front.ask("/v1/embeddings", EMBEDDING)
        assert sorted(trace[33:35] for trace in traces(front)) == ["", "", "02", "02"]
