"""Completions: a prompt without a template."""

from pathlib import Path

import pytest

from gateway.prompts import Prompter
from tests.gateway.asking import becomes, in_loop, running_gateway
from tests.gateway.weights import tokenizer, written

PATH = "/v1/completions"


@in_loop
async def test_a_prompt_begins_as_the_tokenizer_begins_a_text(tmp_path: Path) -> None:
    """The client writes the whole prompt, including its control tokens."""
    async with running_gateway(tmp_path) as front:
        await front.ask(PATH, {"model": "llama", "prompt": "hello<|im_end|>"})
        ids = front.triton.requests[0].tensors["prompt_token_ids"]
    own = tokenizer()
    assert ids == own.encode("hello<|im_end|>").ids
    assert (ids[0], ids[-1]) == (own.token_to_id("<|bos|>"), own.token_to_id("<|im_end|>"))


@pytest.mark.parametrize("prompt", [[5, 6, 7], [[5, 6, 7]]])
@in_loop
async def test_ids_are_sent_as_they_are(tmp_path: Path, prompt: list[object]) -> None:
    async with running_gateway(tmp_path) as front:
        answer = (await front.ask(PATH, {"model": "llama", "prompt": prompt})).json()
        assert front.triton.requests[0].tensors["prompt_token_ids"] == [5, 6, 7]
    assert answer["choices"] == [{"index": 0, "text": "Hello wörld", "logprobs": None, "finish_reason": "stop"}]
    assert (answer["object"], answer["usage"]["total_tokens"]) == ("text_completion", 8)


@in_loop
async def test_a_continuation_streams(tmp_path: Path) -> None:
    body = {"model": "llama", "prompt": "a", "stream": True, "stream_options": {"include_usage": True}}
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(PATH, body)
    *chunks, usage, end = answer.events
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["Hel", "lo wörld", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]
    assert (usage["usage"]["completion_tokens"], end) == (5, "[DONE]")


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"prompt": ["a", [-1]]}, "prompt[1]"),
        ({"prompt": [[1], []]}, "prompt[1]"),
        ({"prompt": [1, "a"]}, "prompt[0]"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"prompt": ["a", "b " * 150]}, "prompt[1]"),
        ({"prompt": ["a"] * 2049}, "prompt"),
        ({"prompt": ["a"] * 17, "n": 128}, "n"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [1_000_000]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({}, "prompt"),
        ({"prompt": [1], "echo": True}, "echo"),
        ({"prompt": "a", "echo": True, "logprobs": 1}, "echo"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "logprobs": True}, "logprobs"),
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "max_tokens": 500}, "prompt"),
    ],
)
@in_loop
async def test_completions_that_cannot_be_made_are_refused_by_name(
    tmp_path: Path, more: dict[str, object], param: str
) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(PATH, {"model": "llama", **more})
        assert front.triton.requests == []
    assert (answer.status, answer.error["param"]) == (400, param)


@in_loop
async def test_tokenize_returns_the_ids_that_the_model_receives(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "hello <|im_end|>"}]
    async with running_gateway(tmp_path) as front:
        await front.ask("/v1/chat/completions", {"model": "llama", "messages": messages})
        await front.ask(PATH, {"model": "llama", "prompt": "hello"})
        chat = (await front.ask("/tokenize", {"model": "llama", "messages": messages})).json()
        prompt = (await front.ask("/tokenize", {"model": "llama", "prompt": "hello"})).json()
        wrong = await front.ask("/tokenize", {"model": "llama", "prompt": "a", "messages": messages})
        sent = [request.tensors["prompt_token_ids"] for request in front.triton.requests]
    assert [chat["tokens"], prompt["tokens"]] == sent
    assert (chat["count"], chat["max_model_len"], wrong.error["param"]) == (len(sent[0]), 200, "prompt")


@in_loop
async def test_weights_without_a_chat_template_complete_texts_and_refuse_chats(tmp_path: Path) -> None:
    """A base model has no chat template; the gateway still serves its other models."""
    async with running_gateway(tmp_path, template="") as front:
        completion = await front.ask(PATH, {"model": "llama", "prompt": "hello"})
        chat, counted = await front.chat(), await front.ask("/tokenize", {"model": "llama", "prompt": "hello"})
    assert (completion.status, counted.json()["tokens"]) == (200, tokenizer().encode("hello").ids)
    assert (chat.status, chat.error["param"]) == (400, "messages")
    assert "no chat template; use /v1/completions" in chat.error["message"]


@in_loop
async def test_a_template_that_is_added_later_is_used_after_the_next_settings(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, template="") as front:
        written(tmp_path / "weights")
        front.settings_file.write_text(front.settings_file.read_text() + "\n")
        await becomes(lambda: isinstance(front.gateway.prompters["llama"], Prompter))
        assert (await front.chat()).status == 200


@in_loop
async def test_best_of_as_many_as_are_answered_changes_nothing(tmp_path: Path) -> None:
    sent = {"model": "llama", "prompt": "a", "n": 2}
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/completions", sent | {"best_of": 2})
        more = await front.ask("/v1/completions", sent | {"best_of": 3})
    assert (answer.status, len(answer.json()["choices"])) == (200, 2)
    assert (more.status, more.error["param"]) == (400, "best_of")
