"""The choice of a server for each prompt, and the engines behind an alias.

More than 300 lines, because properties and running gateways test the same guarantees.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fields import FieldError
from gateway.routing import BLOCK_TOKENS, HOME_BLOCKS, Known, Prefix, chosen, prefix_of
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
    """A server with the fields that routing reads."""

    name: str
    outstanding: int = 0
    turn: int = 0


def prefix(first: int, length: int = BLOCK_TOKENS, **more: str) -> Prefix:
    return prefix_of([first] * length, **{"tenant": "acme", "apart": "llama", **more})


def fleet(*outstanding: int) -> list[Some]:
    return [Some(f"host-{number}/main", tokens) for number, tokens in enumerate(outstanding)]


def test_prompts_share_a_server_by_their_first_blocks() -> None:
    servers = fleet(0, 0, 0, 0)
    ids = list(range(BLOCK_TOKENS * HOME_BLOCKS))
    assert prefix_of([*ids, 1], "", "").home == prefix_of([*ids, *range(999)], "", "").home
    assert prefix_of([7, *ids], "", "").home != prefix_of([8, *ids], "", "").home
    homes = [chosen(servers, prefix(number), 100).name for number in range(400)]
    assert all(70 <= homes.count(server.name) <= 130 for server in servers)


def test_a_prompt_below_one_block_goes_to_the_least_loaded_server() -> None:
    assert prefix(1, BLOCK_TOKENS - 1) == Prefix(tenant="acme")
    assert chosen(fleet(5, 3, 4), Prefix(), 1).name == "host-1/main"
    servers = fleet(0, 0)
    servers[0].turn = 1
    assert chosen(servers, Prefix(), 1) is servers[1]


def test_tenants_adapters_and_sessions_share_no_hash() -> None:
    several = [
        prefix(1, 320, **more) for more in ({}, {"tenant": "umbrella"}, {"apart": "llama:sql"}, {"session": "s"})
    ]
    hashes = [key for hashes_of in several for key in hashes_of.chain]
    assert len(hashes) == len(set(hashes)) == 9 + 9 + 9 + 10


def test_a_session_has_the_same_server_for_any_prompts() -> None:
    assert prefix(1, 5, session="s").home == prefix(2, 500, session="s").home != b""


CHATS = st.lists(st.integers(1, 400), min_size=1, max_size=10)
"""Tokens that each turn of a chat adds."""


@given(CHATS, st.integers(2, 6), st.integers(0, 2**31))
def test_a_growing_chat_stays_on_its_server_while_load_is_even(turns: list[int], count: int, seed: int) -> None:
    servers, known, ids, homes = fleet(*[0] * count), Known(), [seed] * BLOCK_TOKENS, list[str]()
    for number, tokens in enumerate(turns):
        ids = [*ids, *range(number, number + tokens)]
        turn = prefix_of(ids, "acme", "llama")
        server = chosen(servers, turn, 100, known.of(turn))
        known.learn(turn, server.name, {ready.name for ready in servers})
        homes.append(server.name)
    assert len(set(homes)) == 1


@given(CHATS, st.integers(2, 6), st.integers(0, 2**31))
def test_stateless_gateways_choose_one_server_for_a_chat_of_four_blocks(
    turns: list[int], count: int, seed: int
) -> None:
    ids, homes = [seed] * BLOCK_TOKENS * HOME_BLOCKS, set()
    for tokens in turns:
        ids = [*ids, *range(tokens)]
        homes.add(chosen(fleet(*[0] * count), prefix_of(ids, "acme", "llama"), 100).name)
    assert len(homes) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=200), st.integers(2, 5))
def test_no_choice_of_prompts_loads_a_server_beyond_the_bound(
    requests: list[tuple[int, int, bool]], count: int
) -> None:
    """The bound holds for any shared prefixes, any memory of chats, any tenant and any number of requests that end."""
    servers, known = fleet(*[0] * count), Known()
    for first, session, ends in requests:
        turn = prefix(first, 320, session=str(session) if session > 4 else "")
        mean = sum(server.outstanding for server in servers) / count
        server = chosen(servers, turn, 100, known.of(turn))
        assert server.outstanding <= 1.25 * mean + 4 * 100
        known.learn(turn, server.name, {ready.name for ready in servers})
        server.outstanding += 100
        if ends:
            busiest = max(servers, key=lambda server: server.outstanding)
            busiest.outstanding -= 100


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=50, unique=True), st.integers(2, 5), st.booleans())
def test_the_removal_of_a_server_moves_only_its_chats(firsts: list[int], count: int, is_known: bool) -> None:
    servers, known = fleet(*[0] * count), Known()
    names = {server.name for server in servers}
    before: dict[int, str] = {}
    for first in firsts:
        before[first] = chosen(servers, prefix(first, 320), 100).name
        if is_known:
            known.learn(prefix(first, 320), before[first], names)
    for first in firsts:
        turn = prefix(first, 640)
        after = chosen(servers[:-1], turn, 100, known.of(turn)).name
        assert after == before[first] or before[first] == servers[-1].name


def test_a_chat_moved_to_another_server_moves_no_other_chat() -> None:
    """Both chats begin with the same eight blocks; another server answered the second chat, and each stays on its
    server."""
    known, shared, ready = Known(), [1] * 256, {"a", "b"}
    first, second = (prefix_of([*shared, *[number] * 64], "acme", "") for number in (2, 3))
    known.learn(first, "a", ready)
    known.learn(second, "b", ready)
    assert (known.of(first)[0], known.of(second)[0]) == ("a", "b")
    assert known.of(prefix_of([*shared, *[4] * 64], "acme", ""))[0] == "a"


def test_a_chat_of_a_removed_server_is_remembered_by_its_next_server() -> None:
    known, chat = Known(), prefix(1, 320)
    known.learn(chat, "a", {"a", "b"})
    known.learn(chat, "b", {"b"})
    assert set(known.of(chat)) == {"b"}


@given(st.integers(1, 300))
def test_memory_is_bounded_and_a_tenant_that_fills_it_forgets_its_own(flood: int) -> None:
    known, small = Known(64), prefix(1, 96, tenant="small")
    known.learn(small, "a", {"a"})
    for number in range(flood):
        known.learn(prefix(number, 96, tenant="large"), "a", {"a"})
        assert len(known) <= 64
    assert known.of(small) == ["a", "a", "a"]


async def servers_of(front: RunningGateway, texts: list[str], **more: Any) -> list[int]:
    """Returns the number of the server that got each chat, in sequence."""
    numbers = []
    for text in texts:
        before = [len(triton.requests) for triton in front.tritons]
        assert (await front.chat(text, **more)).status == 200
        (number,) = [n for n, triton in enumerate(front.tritons) if len(triton.requests) > before[n]]
        numbers.append(number)
    return numbers


@in_loop
async def test_a_conversation_stays_on_its_server_and_short_prompts_take_turns(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=3) as front:
        assert len(set(await servers_of(front, [LONG] * 6))) == 1
        assert len(set(await servers_of(front, ["hi"] * 3))) == 3


@in_loop
async def test_a_chat_stays_on_its_server_however_much_it_grows(tmp_path: Path) -> None:
    texts = [LONG * 2, LONG * 2 + "a", LONG * 2 + "a b c", LONG * 4, LONG * 20]
    async with running_gateway(tmp_path, tritons=3, llm={"context_tokens": 900}) as front:
        assert len(set(await servers_of(front, texts))) == 1


@in_loop
async def test_a_cache_key_and_the_header_of_a_session_keep_short_prompts_together(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=3) as front:
        by_key = await servers_of(front, ["hi", "ho", "hu"], prompt_cache_key="job-1")
        body, headers = chat("hi"), {"x-session-affinity": "job-1"}
        before = [len(triton.requests) for triton in front.tritons]
        await front.ask(CHAT, body, headers=headers)
        by_header = [len(triton.requests) - count for triton, count in zip(front.tritons, before, strict=True)].index(1)
    assert {*by_key, by_header} == {by_header}


@in_loop
async def test_a_chat_of_an_unready_server_moves_to_another_server_and_stays_there(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2) as front:
        (home,) = set(await servers_of(front, [LONG]))
        front.tritons[home].is_ready = False
        await front.gateway.fleet.look()
        assert await servers_of(front, [LONG]) == [1 - home]
        front.tritons[home].is_ready = True
        await front.gateway.fleet.look()
        assert await servers_of(front, [LONG]) == [1 - home]


@in_loop
async def test_an_adapter_is_a_model_of_its_own_name(tmp_path: Path) -> None:
    aliases = {"llama:support": {"model": "llama", "adapter": "support"}}
    async with running_gateway(tmp_path, aliases=aliases) as front:
        assert "llama:support" in [model["id"] for model in (await front.ask("/v1/models")).json()["data"]]
        assert (await front.chat(model="llama:support")).json()["model"] == "llama:support"
        await front.chat()
    assert [request.tensors.get("lora_name") for request in front.triton.requests] == [["support"], None]


@in_loop
async def test_tenants_share_no_cached_prefix_with_a_secret_salt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The salt depends on the tenant's name and on the host's secret, which is in no log."""
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
    salts = [salt for request in front.triton.requests for salt in request.tensors["cache_salt"]]
    acme, same, umbrella, rotated = salts
    assert acme == same
    assert len({acme, umbrella, rotated, sha256(b"acme").hexdigest()[:32]}) == 4
    assert acme == hmac.new(b"5a17" * 16, b"acme", sha256).hexdigest()[:32]
    assert answer.json()["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    logged = "".join(capsys.readouterr())
    assert logged.count('"tenant":"acme"') == 3
    assert not [text for text in (*salts, "5a17" * 16, "07e4" * 16) if text in logged]


@in_loop
async def test_tenants_that_share_prefixes_get_no_count_of_cached_tokens(tmp_path: Path) -> None:
    """Streamed and whole answers hide cached tokens from tenants; without keys, every client sees them."""

    async def cached_tokens(has_keys: bool) -> list[int]:
        async with running_gateway(tmp_path, has_keys=has_keys) as front:
            whole = (await front.chat()).json()
            *_, last, _end = (await front.chat(stream=True, stream_options={"include_usage": True})).events
        return [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in (whole, last)]

    assert (await cached_tokens(has_keys=True), await cached_tokens(has_keys=False)) == ([0, 0], [2, 2])


def keys_of(front: RunningGateway) -> list[Any]:
    return [key for key in json.loads(front.keys_file.read_text())["keys"] if key["tenant"] == "acme"]


def two_engines(folder: Path) -> dict[str, Any]:
    """Returns settings with `llama-long` of 200 tokens and `llama-short` of 60 on the same weights, both as `qwen`."""
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
    requests = [(request.model, request.tensors["sampling_param_max_tokens"][0]) for request in front.triton.requests]
    assert [name for name, _ in requests] == ["llama-short", "llama-long", "llama-long", "llama-short"]
    assert (30 <= requests[0][1] < 60, requests[1][1], requests[3][1]) == (True, 100, 5)


def test_engines_of_different_weights_are_no_alias(tmp_path: Path) -> None:
    gateway_settings = settings(["127.0.0.1:1"], tmp_path, None) | two_engines(tmp_path)
    assert settings_of(gateway_settings).aliases["qwen"].shorter == ("llama-short",)
    gateway_settings["models"]["llama-short"]["files"] = "/elsewhere"
    with pytest.raises(FieldError, match="same `files`"):
        settings_of(gateway_settings)


@in_loop
async def test_removing_a_server_from_the_settings_ends_no_stream(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2) as front:
        for triton in front.tritons:
            triton.script = Script(halts_after=1)
        talks = [front.opened(CHAT, chat("hi", stream=True)) for _ in range(2)]
        running = [asyncio.ensure_future(talk.run()) for talk in talks]
        await becomes(lambda: [triton.running for triton in front.tritons] == [1, 1])
        gateway_settings = json.loads(front.settings_file.read_text())
        del gateway_settings["servers"]["host-0/main"]
        for model in gateway_settings["models"].values():
            model["servers"] = ["host-1/main"]
        front.settings_file.write_text(json.dumps(gateway_settings))
        await front.gateway.refresh()
        assert list(front.gateway.fleet.servers) == ["host-1/main"]
        assert [triton.running for triton in front.tritons] == [1, 1]
        for triton in front.tritons:
            triton.goes_on.set()
        answers = await asyncio.gather(*running)
    assert all(answer.events[-1] == "[DONE]" for answer in answers)
