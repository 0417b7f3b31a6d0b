"""Keys: authentication, permitted models, and revocation."""

import asyncio
import json
from pathlib import Path

import pytest

from gateway.gateway import LOOK_SECONDS
from tests.gateway.asking import CHAT, KEY, OTHER_KEY, becomes, chat, in_loop, key_line, running_gateway
from tests.gateway.triton import Script


@pytest.mark.parametrize(
    "header",
    [None, "Bearer", "Bearer ", f"Basic {KEY}", "Bearer wrong", f"Bearer {KEY} {KEY}", f"Bearer {KEY}x", "\xff"],
)
@in_loop
async def test_a_request_without_a_known_key_is_refused(tmp_path: Path, header: str | None) -> None:
    async with running_gateway(tmp_path) as front:
        headers = {} if header is None else {"authorization": header}
        answer = await front.ask(CHAT, chat(), key=None, headers=headers)
        assert front.triton.requests == []
    assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("header", [f"bearer {KEY}", f"Bearer  {KEY} ", f"Bearer {KEY}\t"])
@in_loop
async def test_blanks_around_a_key_are_no_part_of_it(tmp_path: Path, header: str) -> None:
    """llhttp keeps blanks at the end of a header, as a key of a file of environment variables may have."""
    async with running_gateway(tmp_path) as front:
        assert (await front.ask(CHAT, chat(), key=None, headers={"authorization": header})).status == 200


@in_loop
async def test_a_gateway_without_a_key_file_requires_no_key(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, has_keys=False) as front:
        assert (await front.ask(CHAT, chat(), key=None)).status == 200


@in_loop
async def test_a_key_sees_and_uses_its_own_models_only(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        every = (await front.ask("/v1/models")).json()["data"]
        own = (await front.ask("/v1/models", key=OTHER_KEY)).json()["data"]
        named = [(await front.ask(f"/v1/models/{name}", key=OTHER_KEY)).status for name in ("bge", "llama")]
        answer = await front.ask(CHAT, chat(), key=OTHER_KEY)
    assert [model["id"] for model in every] == ["bge", "gpt-4o", "llama", "nomic", "nomic:query"]
    assert ([model["id"] for model in own], named) == (["bge"], [200, 404])
    assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")


@in_loop
async def test_a_key_in_the_address_is_refused_and_appears_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/models", key=None, query=f"api_key={KEY}")
    assert (answer.status, KEY in capsys.readouterr().out) == (400, False)


@in_loop
async def test_a_revoked_key_ends_its_streams_and_a_new_key_is_accepted(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=1)
        talk = front.opened(CHAT, chat(stream=True))
        running = asyncio.ensure_future(talk.run())
        await talk.until(lambda: b"Hel" in talk.answer.body)
        keys = {"keys": [key_line(KEY + "2", "acme"), key_line(OTHER_KEY, "umbrella")]}
        front.keys_file.write_text(json.dumps(keys))
        await front.gateway.refresh()
        front.app.sweep(0)
        answer = await running
        await becomes(lambda: front.triton.running == 0)
        assert (await front.ask("/v1/models", key=KEY)).status == 401
        assert (await front.ask("/v1/models", key=KEY + "2")).status == 200
    assert answer.events[-1]["error"]["code"] == "invalid_api_key"


@in_loop
async def test_a_revoked_key_is_refused_without_a_restart(tmp_path: Path) -> None:
    """The process checks the file twice a second; replacing the file works as well."""
    async with running_gateway(tmp_path) as front:
        beside = tmp_path / "keys.new"
        beside.write_text(json.dumps({"keys": [key_line(OTHER_KEY, "umbrella")]}))
        beside.replace(front.keys_file)
        while (await front.ask("/v1/models")).status != 401:
            await asyncio.sleep(0.01)
        assert (await front.ask("/v1/models", key=OTHER_KEY)).status == 200
    assert LOOK_SECONDS <= 0.5


@in_loop
async def test_a_key_file_with_an_unknown_field_changes_no_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_gateway(tmp_path) as front:
        front.keys_file.write_text(json.dumps({"keys": [key_line(KEY, "acme", rights="all")]}))
        await front.gateway.refresh()
        assert (await front.ask("/v1/models")).status == 200
    assert "settings and keys are unchanged" in capsys.readouterr().err


@in_loop
async def test_an_expired_key_is_refused(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.keys_file.write_text(json.dumps({"keys": [key_line(KEY, "acme", expires=1)]}))
        await front.gateway.refresh()
        assert (await front.ask("/v1/models")).status == 401
