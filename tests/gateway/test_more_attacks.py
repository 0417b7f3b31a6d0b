"""Attacks of 2026-11-28 that had an effect: foreign pages, long stop texts, and a file of keys that ends rereading."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.gateway import kept
from tests.gateway.asking import CHAT, chat, in_loop, running_gateway
from tests.gateway.weights import TEMPLATE


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403),
        ("http://127.0.0.1.evil.example:8080", 403),
        ("http://evil.example:8080", 403),
        ("http://127.0.0.1:9000", 200),
        ("http://localhost:3000", 200),
        ("http://[::1]:8080", 200),
        ("https://llm.example.com", 200),
        ("https://balancer.example.com", 200),
        ("https://app.example.com", 200),
        ("app://a.desktop.program", 200),
        ("null", 200),
    ],
)
@in_loop
async def test_a_rebinding_web_page_cannot_use_a_gateway_without_keys(tmp_path: Path, origin: str, status: int) -> None:
    """A page may let its name resolve to 127.0.0.1: its browser then takes the gateway for the page's own server."""
    headers = {"origin": origin, "host": origin.partition("://")[2]}
    known = {"url": "https://llm.example.com", "cors_origins": ["https://app.example.com"]}
    async with running_gateway(tmp_path, has_keys=False, **known) as front:
        assert (await front.ask(CHAT, chat(), key=None, headers=headers)).status == status
    async with running_gateway(tmp_path) as front:
        assert (await front.ask(CHAT, chat(), headers=headers)).status == 200, "a key says who asks"


@in_loop
async def test_a_stop_text_of_thousands_of_characters_is_refused(tmp_path: Path) -> None:
    """An engine tokenises it without a charge, and searches for it in each piece of the answer."""
    async with running_gateway(tmp_path) as front:
        for path, more in ((CHAT, {"stop": ["x" * 5000]}), ("/v1/messages", {"stop_sequences": ["x" * 5000]})):
            answer = await front.ask(path, chat(max_tokens=9) | more)
            assert answer.status == 400 and "4096 characters" in answer.error["message"]
        assert front.triton.requests == []


@in_loop
async def test_a_file_of_keys_that_nests_deeply_ends_no_rereading(tmp_path: Path) -> None:
    """Until 2026-11-28 a revoked key went on: the task that rereads the file had ended."""
    async with running_gateway(tmp_path) as front:
        front.keys_file.write_text("[" * 100_000)
        await front.gateway.refresh()
        assert (await front.chat()).status == 200
        front.keys_file.write_text(json.dumps({"keys": []}))
        await front.gateway.refresh()
        assert (await front.chat()).status == 401


UNUSABLE: dict[str, tuple[str, Any]] = {
    "a tokenizer without a model": ("tokenizer.json", {}),
    "a model of no known type": ("tokenizer.json", {"model": {"type": "Later"}, "added_tokens": []}),
    "an expression that cannot be read": ("tokenizer.json", {"pre_tokenizer": {"type": "Split", "pattern": "("}}),
    "an added token without a text": ("tokenizer.json", {"model": {"vocab": {}}, "added_tokens": [{"id": 1}]}),
    "a list of templates without names": ("tokenizer_config.json", {"chat_template": [{"x": 1}]}),
}


@pytest.mark.parametrize("name", UNUSABLE)
@in_loop
async def test_weights_that_no_library_reads_end_no_rereading(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until 2026-11-28 the task ended: no key could be revoked, and no server's loss was noticed."""
    file, content = UNUSABLE[name]
    async with running_gateway(tmp_path) as front:
        (tmp_path / "weights/chat_template.jinja").unlink()
        (tmp_path / "weights/tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
        (tmp_path / "weights" / file).write_text(json.dumps(content))
        front.settings_file.write_text(front.settings_file.read_text() + " ")
        await front.gateway.refresh()
        assert "settings and keys are unchanged: new files are unusable" in capsys.readouterr().err
        assert (await front.chat()).status == 200
        front.keys_file.write_text(json.dumps({"keys": []}))
        await front.gateway.refresh()
        assert (await front.chat()).status == 401


@in_loop
async def test_endless_work_goes_on_after_any_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        """The form of a panic in a library of Rust."""

    failures, goes_on = [ValueError("a prompt"), PanicException("a prompt")], asyncio.Event()

    async def look() -> None:
        if failures:
            raise failures.pop()
        goes_on.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("gateway.gateway.LOOK_SECONDS", 0)
    work = asyncio.ensure_future(kept(look))
    await goes_on.wait()
    work.cancel()
    assert (await asyncio.gather(work, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    printed = capsys.readouterr().err
    assert printed.count("look failed and starts again") == 2 and "a prompt" not in printed
