"""Which server a prompt goes to, and what an alias says besides."""

from __future__ import annotations

import asyncio
import hmac
import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gateway.fields import FieldError
from gateway.routing import BLOCK_TOKENS, MOST_BLOCKS, beginning_of, chosen
from gateway.settings import settings_of
from tests.gateway.asking import (
    CHAT,
    OTHER_KEY,
    RunningGateway,
    becomes,
    chat,
    in_loop,
    key_line,
    running_gateway,
    settings,
)
from tests.gateway.triton import Script

LONG = "the cat sat on the mat " * 4


@dataclass
class Some:
    """A server as far as routing reads it."""

    name: str
    outstanding: int = 0
    turn: int = 0


def beginning(first: int, length: int = BLOCK_TOKENS, apart: str = "") -> bytes:
    return beginning_of([first] * length, apart)


def fleet(*outstanding: int) -> list[Some]:
    return [Some(f"host-{number}/main", tokens) for number, tokens in enumerate(outstanding)]


def test_prompts_with_the_same_first_blocks_go_to_the_same_server_and_others_are_spread() -> None:
    servers = fleet(0, 0, 0, 0)
    ids = list(range(BLOCK_TOKENS * MOST_BLOCKS))
    assert beginning_of([*ids, 1], "") == beginning_of([*ids, 2, 3], "")
    assert beginning_of([7, *ids], "") != beginning_of([8, *ids], "")
    homes = [chosen(servers, beginning(number), 100).name for number in range(400)]
    assert all(70 <= homes.count(server.name) <= 130 for server in servers)


def test_only_the_prompts_of_a_server_that_goes_go_elsewhere() -> None:
    servers = fleet(0, 0, 0, 0)
    for number in range(100):
        home = chosen(servers, beginning(number), 100)
        if home is not servers[3]:
            assert chosen(servers[:3], beginning(number), 100) is home


def test_a_server_that_is_far_ahead_is_passed_over() -> None:
    """However many begin alike, no server has more than the bound allows."""
    servers = fleet(0, 0, 0)
    for _ in range(300):
        chosen(servers, beginning(1), 100).outstanding += 100
    loads = [server.outstanding for server in servers]
    assert min(loads) > 0
    assert max(loads) <= 1.25 * sum(loads) / 3 + 5 * 100


def test_a_prompt_without_a_whole_block_goes_where_least_is_to_do_in_turn() -> None:
    assert beginning(1, BLOCK_TOKENS - 1) == b""
    assert chosen(fleet(5, 3, 4), b"", 1).name == "host-1/main"
    servers = fleet(0, 0)
    servers[0].turn = 1
    assert chosen(servers, b"", 1) is servers[1]


def test_what_is_apart_begins_differently() -> None:
    assert len({beginning(1, apart=apart) for apart in ("", "llama\0support\0", "llama\0\0salt")}) == 3


async def servers_of(front: RunningGateway, texts: list[str], **more: Any) -> list[int]:
    """The number of the server that each chat went to, one after the other."""
    found = []
    for text in texts:
        before = [len(triton.asked) for triton in front.tritons]
        assert (await front.chat(text, **more)).status == 200
        (number,) = [n for n, triton in enumerate(front.tritons) if len(triton.asked) > before[n]]
        found.append(number)
    return found


@in_loop
async def test_a_conversation_stays_on_its_server_and_short_prompts_take_turns(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=3) as front:
        assert len(set(await servers_of(front, [LONG] * 6))) == 1
        assert len(set(await servers_of(front, ["hi"] * 3))) == 3


@in_loop
async def test_a_conversations_server_that_is_away_is_not_waited_for(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2) as front:
        (home,) = set(await servers_of(front, [LONG]))
        front.tritons[home].is_ready = False
        await front.gateway.fleet.look()
        assert await servers_of(front, [LONG]) == [1 - home]
        front.tritons[home].is_ready = True
        await front.gateway.fleet.look()
        assert await servers_of(front, [LONG]) == [home]


@in_loop
async def test_an_adapter_is_a_model_of_its_own_name(tmp_path: Path) -> None:
    aliases = {"llama:support": {"model": "llama", "adapter": "support"}}
    async with running_gateway(tmp_path, aliases=aliases) as front:
        assert "llama:support" in [each["id"] for each in (await front.ask("/v1/models")).json()["data"]]
        assert (await front.chat(model="llama:support")).json()["model"] == "llama:support"
        await front.chat()
    assert [each.tensors.get("lora_name") for each in front.triton.asked] == [["support"], None]


@in_loop
async def test_tenants_share_no_cached_prefix_where_the_slot_takes_a_salt_that_nobody_computes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tenant's name gives no salt without the host's secret, which no log has; another secret is another salt."""
    async with running_gateway(tmp_path) as front:
        front.keys_file.write_text(json.dumps({"keys": [key_line(OTHER_KEY, "umbrella"), *keys_of(front)]}))
        content = json.loads(front.settings_file.read_text())
        content["models"]["llama"]["salts"] = True
        content["salt_file"] = str(tmp_path / "salt")
        (tmp_path / "salt").write_text("5a17" * 16)
        front.settings_file.write_text(json.dumps(content))
        await front.gateway.refresh()
        answer = await front.chat()
        await front.chat()
        await front.ask(CHAT, chat(), key=OTHER_KEY)
        (tmp_path / "salt").write_text("07e4" * 16)
        front.settings_file.write_text(json.dumps(content | {"fingerprint": "plan-2"}))
        await front.gateway.refresh()
        await front.chat()
    salts = [salt for request in front.triton.asked for salt in request.tensors["cache_salt"]]
    acme, same, umbrella, rotated = salts
    assert acme == same
    assert len({acme, umbrella, rotated, sha256(b"acme").hexdigest()[:32]}) == 4
    assert acme == hmac.new(b"5a17" * 16, b"acme", sha256).hexdigest()[:32]
    assert answer.json()["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    logged = "".join(capsys.readouterr())
    assert logged.count('"tenant":"acme"') == 3
    assert not [text for text in (*salts, "5a17" * 16, "07e4" * 16) if text in logged]


@in_loop
async def test_where_tenants_share_prefixes_no_client_is_told_how_many_tokens_were_cached(tmp_path: Path) -> None:
    """Whole and streamed; the audit has the number. Where nobody shows a key, nobody is told apart."""

    async def cached_tokens(has_keys: bool) -> list[int]:
        async with running_gateway(tmp_path, has_keys=has_keys) as front:
            whole = (await front.chat()).json()
            *_, last, _end = (await front.chat(stream=True, stream_options={"include_usage": True})).events
        return [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in (whole, last)]

    assert (await cached_tokens(has_keys=True), await cached_tokens(has_keys=False)) == ([0, 0], [2, 2])


def keys_of(front: RunningGateway) -> list[Any]:
    return [key for key in json.loads(front.keys_file.read_text())["keys"] if key["tenant"] == "acme"]


def two_engines(folder: Path) -> dict[str, Any]:
    """A model `llama-long` of 200 tokens and `llama-short` of 60 on the same weights, both as `qwen`."""
    llm = {"kind": "llm", "servers": ["host-0/main"], "files": str(folder / "weights")}
    return {
        "models": {"llama-long": {**llm, "context_tokens": 200}, "llama-short": {**llm, "context_tokens": 60}},
        "aliases": {"qwen": {"models": ["llama-long", "llama-short"]}},
    }


@in_loop
async def test_the_engine_is_the_shortest_with_room_for_prompt_and_answer(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, **two_engines(tmp_path)) as front:
        for text, more in (("hi", {}), ("hi", {"max_tokens": 100}), (LONG, {}), ("hi", {"max_tokens": 5})):
            answer = await front.chat(text, model="qwen", **more)
            assert (answer.status, answer.json()["model"]) == (200, "qwen")
    asked = [(each.model, each.tensors["sampling_param_max_tokens"][0]) for each in front.triton.asked]
    assert [name for name, _ in asked] == ["llama-short", "llama-long", "llama-long", "llama-short"]
    assert (30 <= asked[0][1] < 60, asked[1][1], asked[3][1]) == (True, 100, 5)


def test_engines_of_different_weights_are_no_alias(tmp_path: Path) -> None:
    told = settings(["127.0.0.1:1"], tmp_path, None) | two_engines(tmp_path)
    assert settings_of(told).aliases["qwen"].shorter == ("llama-short",)
    told["models"]["llama-short"]["files"] = "/elsewhere"
    with pytest.raises(FieldError, match="same `files`"):
        settings_of(told)


@in_loop
async def test_a_server_that_leaves_the_map_ends_no_stream(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2) as front:
        for triton in front.tritons:
            triton.script = Script(halts_after=1)
        talks = [front.opened(CHAT, chat("hi", stream=True)) for _ in range(2)]
        running = [asyncio.ensure_future(talk.run()) for talk in talks]
        await becomes(lambda: [triton.running for triton in front.tritons] == [1, 1])
        told = json.loads(front.settings_file.read_text())
        del told["servers"]["host-0/main"]
        for model in told["models"].values():
            model["servers"] = ["host-1/main"]
        front.settings_file.write_text(json.dumps(told))
        await front.gateway.refresh()
        assert list(front.gateway.fleet.servers) == ["host-1/main"]
        assert [triton.running for triton in front.tritons] == [1, 1]
        for triton in front.tritons:
            triton.goes_on.set()
        answers = await asyncio.gather(*running)
    assert all(answer.events[-1] == "[DONE]" for answer in answers)
