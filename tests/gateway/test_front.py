"""Disconnecting clients, errors, changed settings, counts, and audit lines."""

import asyncio
import dataclasses
import gc
import json
import os
from pathlib import Path

import grpc
import pytest

import gateway.app
from tests.gateway.asking import CHAT, KEY, becomes, chat, in_loop, lines, running_gateway
from tests.gateway.triton import HELLO, Script


@pytest.mark.parametrize("streams", [True, False])
@in_loop
async def test_a_client_that_disconnects_stops_the_model(
    tmp_path: Path, streams: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=1)
        talk = front.opened(CHAT, chat(stream=streams))
        running = asyncio.ensure_future(talk.run())
        await becomes(lambda: front.triton.running == 1)
        if streams:
            await talk.until(lambda: b"Hel" in talk.answer.body)
        talk.left.set()
        await running
        await becomes(lambda: front.triton.running == 0)
        assert front.triton.cancelled == 1
        assert all(server.outstanding == 0 for server in front.gateway.fleet.servers.values())
    (line,) = lines(capsys)
    assert line["end"] == "left"


@in_loop
async def test_two_hundred_clients_that_disconnect_after_a_token_leave_no_request_running(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=1)
        talks = [front.opened(CHAT, chat(stream=True)) for _ in range(200)]
        running = [asyncio.ensure_future(talk.run()) for talk in talks]
        for talk in talks:
            await talk.until(lambda talk=talk: b"Hel" in talk.answer.body)
            talk.left.set()
        await asyncio.gather(*running)
        await becomes(lambda: front.triton.running == 0)
        assert front.triton.cancelled == 200
        assert all(server.outstanding == 0 for server in front.gateway.fleet.servers.values())


@in_loop
async def test_a_client_that_disconnects_after_its_last_token_cancels_no_request(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=len(HELLO))
        talk = front.opened(CHAT, chat(stream=True))
        running = asyncio.ensure_future(talk.run())
        await talk.until(lambda: b'"finish_reason":"stop"' in talk.answer.body)
        talk.left.set()
        await running
        gc.collect()
        assert (front.triton.running, front.triton.cancelled) == (1, 0)
        front.triton.goes_on.set()
        await becomes(lambda: front.triton.running == 0)
        assert front.triton.cancelled == 0


@in_loop
async def test_a_client_that_reads_nothing_is_disconnected(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        talk = front.opened(CHAT, chat(stream=True))
        talk.takes.clear()
        running = asyncio.ensure_future(talk.run())
        await becomes(lambda: any(exchange.has_begun for exchange in front.app._open_requests))
        front.app.sweep(float("inf"))
        talk.takes.set()
        await running
        await becomes(lambda: front.triton.running == 0)
    assert not talk.answer.is_complete


@in_loop
async def test_a_silent_stream_gets_comments(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=0)
        talk = front.opened(CHAT, chat(stream=True))
        running = asyncio.ensure_future(talk.run())
        await becomes(lambda: front.triton.running == 1)
        (exchange,) = front.app._open_requests
        await asyncio.gather(*front.app.sweep(exchange._moved + 11))
        assert talk.answer.body == b": still working\n\n"
        talk.left.set()
        await running


@in_loop
async def test_health_lists_the_models_that_have_a_server(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        assert (await front.ask("/health", key=None)).json() == {"models": {"llama": True, "nomic": True, "bge": True}}
        front.triton.is_ready = False
        await front.gateway.fleet.look()
        answer = await front.ask("/health", key=None)
    assert (answer.status, answer.json()["models"]["llama"]) == (503, False)


@in_loop
async def test_a_client_that_reads_nothing_delays_no_other_client(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        slow = front.opened(CHAT, chat(stream=True))
        slow.takes.clear()
        running = asyncio.ensure_future(slow.run())
        await becomes(lambda: any(exchange.has_begun for exchange in front.app._open_requests))
        assert [(await front.chat(stream=True)).events[-1] for _ in range(3)] == ["[DONE]"] * 3
        assert not running.done()
        slow.takes.set()
        assert (await running).events[-1] == "[DONE]"


@in_loop
async def test_the_audit_line_of_a_request_has_its_counts_and_no_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat("a secret of mine")
        page = (await front.ask("/metrics", key=None)).body.decode()
    printed = capsys.readouterr()
    (line,) = [json.loads(text) for text in printed.out.splitlines()]
    assert line["request"] == answer.headers["x-request-id"]
    assert {name: line[name] for name in ("tenant", "key", "endpoint", "model", "server", "status", "end")} == {
        "tenant": "acme", "key": "eh-test", "endpoint": "chat", "model": "llama", "server": "host-0/main",
        "status": 200, "end": "",
    }  # fmt: skip
    assert (line["completion_tokens"], line["cached_tokens"]) == (5, 2)
    assert line["prompt_tokens"] > 5
    assert 0 <= line["first_token_ms"] <= line["duration_ms"]
    for word in ("secret", "wörld", KEY):
        assert word not in printed.out + printed.err + page
    assert 'enginehouse_gateway_requests_total{endpoint="chat",model="llama",status="200"} 1' in page
    assert 'enginehouse_gateway_tokens_total{model="llama",kind="completion"} 5' in page
    assert 'enginehouse_gateway_running{endpoint="chat"} 0' in page


class PanicException(BaseException):
    """The form of a panic in a library of Rust, such as the tokenizer: no `Exception`."""


@pytest.mark.parametrize("kind", [KeyError, PanicException])
@in_loop
async def test_an_exception_affects_only_its_own_request_and_logs_no_text(
    tmp_path: Path, kind: type[BaseException], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(request):
        raise kind(request.body["messages"][0]["content"])

    route = gateway.app.ROUTES[CHAT]
    monkeypatch.setitem(gateway.app.ROUTES, CHAT, dataclasses.replace(route, answer=broken))
    async with running_gateway(tmp_path) as front:
        answer = await front.chat("a secret of mine")
        assert (await front.ask("/v1/models")).status == 200
    printed = capsys.readouterr()
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert kind.__name__ in printed.err
    assert "secret" not in printed.err + printed.out + answer.body.decode()


@pytest.mark.parametrize(
    ("code", "message", "status", "waits"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "n is above 1 and temperature is 0", 400, None),
        (grpc.StatusCode.UNIMPLEMENTED, "this release guides no answer", 400, None),
        (grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size: 8", 503, "1"),
        (grpc.StatusCode.INTERNAL, "secret at /opt/x.py", 500, None),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "late", 504, None),
    ],
)
@in_loop
async def test_tritons_errors_become_the_clients(
    tmp_path: Path, code: grpc.StatusCode, message: str, status: int, waits: str | None
) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(error=(code, message))
        answer = await front.chat(stream=True)
    assert (answer.status, answer.headers.get("retry-after")) == (status, waits)
    assert (message in answer.error["message"]) == (status == 400)


@in_loop
async def test_an_error_in_a_stream_is_its_last_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(error=(grpc.StatusCode.INTERNAL, "x"), error_after=2)
        answer = await front.chat(stream=True)
    assert (answer.status, answer.is_complete) == (200, True)
    assert answer.events[-1]["error"]["code"] == "upstream_error"
    assert "[DONE]" not in answer.events
    assert lines(capsys)[0]["end"] == "upstream_error"


@in_loop
async def test_a_client_cannot_choose_the_id_of_a_request_to_triton(tmp_path: Path) -> None:
    """A client's own ids and trace headers are dropped; they could name another request, or trace every request."""
    headers = {"x-request-id": "1", "traceparent": "00-1-1-01", "triton-grpc-protocol-x": "y"}
    async with running_gateway(tmp_path) as front:
        answers = [await front.ask(CHAT, chat(), headers=headers) for _ in range(2)]
        requests = front.triton.requests
        assert len({request.identity for request in requests}) == 2
        assert not {"x-request-id", "traceparent", "triton-grpc-protocol-x"} & set(requests[0].metadata)
    assert all(answer.headers["x-request-id"] not in ("1", requests[0].identity) for answer in answers)


@in_loop
async def test_new_settings_hold_for_new_requests_and_lose_no_stream(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=1)
        talk = front.opened(CHAT, chat(stream=True))
        running = asyncio.ensure_future(talk.run())
        await talk.until(lambda: b"Hel" in talk.answer.body)
        gateway_settings = json.loads(front.settings_file.read_text())
        gateway_settings["models"]["llama-2"] = gateway_settings["models"].pop("llama")
        gateway_settings["aliases"]["gpt-4o"]["model"] = "llama-2"
        front.settings_file.write_text(json.dumps(gateway_settings))
        os.utime(front.settings_file, (1, 1))
        await front.gateway.refresh()
        front.triton.script = Script(HELLO)
        assert (await front.chat()).status == 404
        assert (await front.ask(CHAT, chat(model="gpt-4o"))).status == 200
        assert not running.done()
        talk.left.set()
        await running
