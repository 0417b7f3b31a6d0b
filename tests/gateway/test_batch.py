"""Completions of several prompts: numbered, counted, limited, failed, and with a client that disconnects."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.logprobs import Listed
from tests.gateway.asking import KEY, Conversation, becomes, in_loop, lines, running_gateway
from tests.gateway.test_budgets import limited
from tests.gateway.triton import HELLO, Event, ModelRequest, Script
from tests.gateway.weights import tokenizer

PATH = "/v1/completions"
BATCH: dict[str, Any] = {"model": "llama", "prompt": [[5], [6, 6], [7, 7, 7]]}


@contextlib.asynccontextmanager
async def running(talk: Conversation) -> AsyncIterator[None]:
    """Runs the request during the block, and waits for its whole answer at the end."""
    task = asyncio.ensure_future(talk.run())
    yield
    await task


def names_its_prompt() -> Callable[[ModelRequest], tuple[Event, ...]]:
    """Returns answers that begin with their prompt, each sequence with its number; later prompts take more events."""

    def events(request: ModelRequest) -> tuple[Event, ...]:
        (count,), prompt = request.tensors.get("sampling_param_n", [1]), request.tensors["prompt_token_ids"]
        words = [f"{prompt[0]}", *("." for _ in prompt)]
        parts = [Event(word, number) for word in words for number in range(count)]
        return (*parts, *(Event(f"#{number}", number, "stop", 2, cached=1) for number in range(count)))

    return events


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("streams", [False, True])
@in_loop
async def test_choices_are_numbered_prompt_by_prompt_and_usage_is_summed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    streams: bool,
    count: int,
) -> None:
    body = BATCH | {"n": count, "stream": streams}
    body |= {"stream_options": {"include_usage": True}} if streams else {}
    async with running_gateway(tmp_path) as front:
        monkeypatch.setattr(front.triton, "_events", names_its_prompt())
        answer = await front.ask(PATH, body)
        assert sorted(request.tensors["prompt_token_ids"] for request in front.triton.requests) == BATCH["prompt"]
    texts, finishes = [""] * 3 * count, [None] * 3 * count
    answers = answer.events[:-1] if streams else [answer.json()]
    for part in answers:
        for choice in part["choices"]:
            texts[choice["index"]] += choice["text"]
            finishes[choice["index"]] = choice["finish_reason"]
    assert texts == [f"{start}{'.' * long}#{number}" for long, start in enumerate("567", 1) for number in range(count)]
    assert finishes == ["stop"] * 3 * count
    usage = answers[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (
        6,
        6 * count,
        6 + 6 * count,
    )
    assert len({part["id"] for part in answers}) == 1
    assert streams is (answer.events[-1:] == ["[DONE]"])
    (line,) = lines(capsys)
    assert (line["prompt_tokens"], line["completion_tokens"], line["cached_tokens"]) == (6, 6 * count, 3)


@in_loop
async def test_texts_and_ids_may_stand_in_one_list(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(PATH, {"model": "llama", "prompt": ["hello", [5, 6]], "best_of": 1})
        prompts = [request.tensors["prompt_token_ids"] for request in front.triton.requests]
    assert sorted(prompts) == sorted([tokenizer().encode("hello").ids, [5, 6]])
    assert [choice["index"] for choice in answer.json()["choices"]] == [0, 1]


@in_loop
async def test_a_stream_sends_each_prompts_events_as_they_come(tmp_path: Path) -> None:
    """No prompt waits for the end of another: all have begun before one has ended."""
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=1)
        talk = front.opened(PATH, BATCH | {"stream": True})
        async with running(talk):
            await talk.until(lambda: len(talk.answer.events) == 3)
            assert {event["choices"][0]["index"] for event in talk.answer.events} == {0, 1, 2}
            front.triton.goes_on.set()
    assert talk.answer.events[-1] == "[DONE]"


@pytest.mark.parametrize("streams", [False, True])
@in_loop
async def test_a_prompt_that_fails_fails_the_request_and_cancels_the_others(tmp_path: Path, streams: bool) -> None:
    error = (grpc.StatusCode.INTERNAL, "the engine broke")
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(HELLO, error, error_after=1, error_prompt=(6, 6), halts_after=2)
        answer = await front.ask(PATH, BATCH | {"stream": streams})
        await becomes(lambda: front.triton.running == 0)
    assert answer.status == (200 if streams else 500)
    assert "error" in (answer.events[-1] if streams else answer.json())
    assert "[DONE]" not in answer.events


@pytest.mark.parametrize("streams", [False, True])
@in_loop
async def test_a_client_that_disconnects_cancels_every_prompt(tmp_path: Path, streams: bool) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=1)
        talk = front.opened(PATH, BATCH | {"stream": streams})
        async with running(talk):
            await becomes(lambda: front.triton.running == 3)
            talk.left.set()
        await becomes(lambda: front.triton.running == 0)
        assert front.triton.cancelled == 3


@in_loop
async def test_prompts_beyond_those_at_once_wait_for_their_turn_and_are_answered(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(halts_after=1)
        talk = front.opened(PATH, {"model": "llama", "prompt": [[5]] * 20, "n": 4})
        async with running(talk):
            await becomes(lambda: front.triton.running == 8)
            assert len(front.triton.requests) == 8
            front.triton.goes_on.set()
        assert len(front.triton.requests) == 20
    assert [choice["index"] for choice in talk.answer.json()["choices"]] == list(range(80))


@in_loop
async def test_a_key_reserves_all_prompts_and_pays_for_the_used_tokens(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await limited(front, tokens_per_minute=300)
        refused = await front.ask(PATH, BATCH | {"max_tokens": 99})  # 6 + 3 * 99
        assert front.triton.requests == []
        answer = await front.ask(PATH, BATCH | {"max_tokens": 98})
        reserved = 300 - int(answer.headers["x-ratelimit-remaining-tokens"])
        used = front.gateway.budgets.usage(front.gateway.keys.holder(f"Bearer {KEY}".encode()))
    assert (refused.status, answer.status, reserved) == (429, 200, 300)
    assert used.spent.tokens == answer.json()["usage"]["total_tokens"] == 6 + 3 * 5


@in_loop
async def test_a_small_key_asks_several_prompts_without_max_tokens(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await limited(front, tokens_per_minute=100)
        assert (await front.ask(PATH, {"model": "llama", "prompt": [[5]] * 12})).status == 200


@pytest.mark.parametrize("streams", [False, True])
@in_loop
async def test_an_echo_stands_once_before_each_choice(tmp_path: Path, streams: bool) -> None:
    body = {"model": "llama", "prompt": ["a ", "b "], "n": 2, "echo": True, "stream": streams}
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(PATH, body)
    texts = [""] * 4
    for part in answer.events[:-1] if streams else [answer.json()]:
        for choice in part["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == ["a Hello wörld", "a Hello wörld", "b Hello wörld", "b Hello wörld"]


@in_loop
async def test_log_probabilities_are_lists_side_by_side(tmp_path: Path) -> None:
    """`ö` is two tokens of this vocabulary, neither of which is text: each is reported by its byte."""
    own = tokenizer()
    first, second = own.encode("ö", add_special_tokens=False).ids
    (last,) = own.encode("a", add_special_tokens=False).ids
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script((Event("", ids=(first,)), Event("öa", 0, "stop", 3, ids=(second, last))))
        body = {"model": "llama", "prompt": "x", "logprobs": 2}
        (whole,) = (await front.ask(PATH, body)).json()["choices"]
        (bare,) = (await front.ask(PATH, body | {"logprobs": 0})).json()["choices"]
        events = (await front.ask(PATH, body | {"stream": True})).events[:-1]
    listed = whole["logprobs"]
    assert listed["tokens"] == ["bytes:\\xc3", "bytes:\\xb6", "a"]
    assert (listed["token_logprobs"], listed["text_offset"]) == ([-0.5] * 3, [0, 0, 1])
    assert [top[token] for top, token in zip(listed["top_logprobs"], listed["tokens"], strict=True)] == [-0.5] * 3
    assert bare["logprobs"] == listed | {"top_logprobs": None}
    streamed = [event["choices"][0]["logprobs"] for event in events]
    assert {name: [value for part in streamed for value in part[name]] for name in listed} == listed


@given(text=st.text(max_size=20), cuts=st.lists(st.integers(1, 4)))
@settings(max_examples=100, deadline=None)
def test_offsets_count_the_characters_before_each_token(text: str, cuts: list[int]) -> None:
    """However the bytes of a text are cut into tokens, the offset is the count of whole characters before."""
    raw, pieces = text.encode(), list[bytes]()
    for cut in [*cuts, *[1] * len(raw)]:
        pieces.append(raw[:cut])
        raw = raw[cut:]
    pieces = [piece for piece in pieces if piece]
    entries: list[dict[str, Any]] = [{"bytes": list(piece), "logprob": -1.0, "top_logprobs": []} for piece in pieces]
    listed = Listed().legacy_logprobs(entries, False)
    before = [len(b"".join(pieces[:place]).decode("utf-8", "ignore")) for place in range(len(pieces))]
    assert (listed["text_offset"] if listed else []) == before
