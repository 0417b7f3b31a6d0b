"""Attacks of 2026-11-28 that had an effect: foreign pages, long stop texts, and a file of keys that ends rereading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gateway.asking import CHAT, chat, in_loop, running_gateway


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
