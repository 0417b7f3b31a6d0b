"""An engine that stops, is swapped for another program, or comes back: requests wait, are asked again, or end well."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.http_upstream import HttpUpstream
from gateway.servers import ServerSettings
from tests.gateway.asking import becomes, in_loop, running_gateway
from tests.gateway.test_engine_answers import JSON_SCHEMA, MODEL, STREAM
from tests.gateway.triton import Event, Script


@in_loop
async def test_a_swapped_program_gets_its_own_fields_before_the_settings_change(tmp_path: Path) -> None:
    """The same holds for the earlier program after a rollback: the release names the running program."""
    (tmp_path / "salt").write_text("s" * 64)
    more: dict[str, Any] = {"salt_file": str(tmp_path / "salt")}
    async with running_gateway(tmp_path, runtime="vllm", llm={"salts": True, **MODEL}, **more) as front:
        assert front.engine
        for program in ("trtllm-serve", "vllm"):
            front.triton.is_ready = False
            await front.gateway.fleet.look()
            (tmp_path / "server.json").write_text(json.dumps({"llm": {"runtime": program, "version": "1.2.1"}}))
            front.engine.runtime, front.triton.is_ready = program, True
            await front.gateway.fleet.look()
            assert (await front.chat(response_format=JSON_SCHEMA)).status == 200
            assert ("cache_salt" in front.engine.bodies[-1]) == (program == "vllm")


@in_loop
async def test_a_program_that_takes_salts_gets_them_before_the_settings_say_so(tmp_path: Path) -> None:
    """After a swap from trtllm-serve, which takes no salts, tenants of vLLM share no prefix, even before the run
    ends."""
    (tmp_path / "salt").write_text("s" * 64)
    more: dict[str, Any] = {"salt_file": str(tmp_path / "salt")}
    async with running_gateway(tmp_path, runtime="trtllm-serve", llm=MODEL, **more) as front:
        assert front.engine
        await front.chat()
        front.triton.is_ready = False
        await front.gateway.fleet.look()
        (tmp_path / "server.json").write_text(json.dumps({"llm": {"runtime": "vllm", "version": "0.26.0"}}))
        front.engine.runtime, front.triton.is_ready = "vllm", True
        await front.gateway.fleet.look()
        assert (await front.chat()).status == 200
        assert [len(body.get("cache_salt", "")) for body in front.engine.bodies] == [0, 32]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"llm": {"runtime": "another"}}', '{"llm": {"runtime": "vllm"}}'])
def test_a_release_that_names_no_known_program_leaves_the_settings_in_force(tmp_path: Path, content: str) -> None:
    (tmp_path / "server.json").write_text(content)
    settings = ServerSettings("a", http="127.0.0.1:1", runtime="trtllm-serve", release=f"{tmp_path}/server.json")
    assert HttpUpstream(settings)._runtime == "trtllm-serve"


@pytest.mark.parametrize(
    ("stream", "stops_by"), [(True, "done"), (True, "abort"), (True, "cut"), (False, "abort"), (False, "cut")]
)
@in_loop
async def test_a_request_that_reaches_an_engine_while_it_stops_is_asked_again(
    stream: bool, stops_by: str, tmp_path: Path
) -> None:
    """The engine ends a stream before its first token, or a complete answer anywhere; the request waits for its return.

    A whole answer that vLLM aborts has status 200, some text, and "abort" as its reason to finish.
    """
    async with running_gateway(tmp_path, runtime="vllm", hold_seconds=60) as front:
        assert front.engine
        front.engine.stopping, front.engine.stops_by = 1, stops_by
        task = asyncio.ensure_future(front.chat(stream=stream))
        await becomes(lambda: len(front.engine.bodies) == 1 and not front.engine.stopping)
        while not task.done():
            await front.gateway.fleet.look()
            await asyncio.sleep(0.01)
        assert ((await task).status, len(front.engine.bodies)) == (200, 2)


@in_loop
async def test_an_aborted_unstreamed_answer_without_another_engine_may_be_retried(tmp_path: Path) -> None:
    """The client gets a 503 with a time to wait, and none of the aborted text."""
    async with running_gateway(tmp_path, runtime="vllm", hold_seconds=0) as front:
        assert front.engine
        front.engine.stopping, front.engine.stops_by = 1, "abort"
        answer = await front.chat()
    assert (answer.status, answer.error["code"], b"choices" in answer.body) == (503, "unavailable", False)
    assert answer.headers["retry-after"] and "x-should-retry" not in answer.headers


@in_loop
async def test_an_answer_aborted_after_its_first_token_ends_with_the_reason(tmp_path: Path) -> None:
    """The client already has part of the answer, so that the gateway does not retry the request."""
    async with running_gateway(tmp_path, runtime="vllm", hold_seconds=60) as front:
        front.triton.script = Script((Event("Hel"), Event("", finish="abort", tokens=2)))
        answer = await front.chat(**STREAM)
        assert front.engine and len(front.engine.bodies) == 1
    assert answer.events[-1]["error"]["code"] == "unavailable" and "stopped" in answer.events[-1]["error"]["message"]
