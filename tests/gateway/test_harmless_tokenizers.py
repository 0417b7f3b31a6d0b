"""Tokenizers of weights: published ones work in the gateway's process, all others in a process with bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.harmless_tokenizers import SPLITS, is_harmless
from tests.gateway.asking import RunningGateway, in_loop, running_gateway
from tests.gateway.weights import tokenizer

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def sequence(inner: str, *steps: Any) -> dict[str, Any]:
    return {"type": "Sequence", inner: list(steps)}


def split(**pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


def replaced(content: str, **pattern: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def post(copies: int = 1, ids: int = 1) -> dict[str, Any]:
    """Returns a post-processor that writes the text this often, with so many ids before it."""
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, *[{"Sequence": {"id": "A", "type_id": 0}}] * copies]
    own = {"id": "<s>", "ids": [1] * ids, "tokens": ["<s>"] * ids}
    return {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {"<s>": own}}


LINEAR = {
    "Llama 2": {"normalizer": sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replaced("▁", String=" "))},
    "Llama 3": {"pre_tokenizer": sequence("pretokenizers", split(Regex=LLAMA_3), BYTES)},
    "Gemma": {"normalizer": replaced("▁", String=" "), "pre_tokenizer": split(String=" ")},
    "Mistral": {"decoder": sequence("decoders", replaced(" ", String="▁"), {"type": "ByteFallback"}, {"type": "Fuse"},
                                    {"type": "Strip", "content": " ", "start": 1, "stop": 0})},
    "Qwen": {"normalizer": {"type": "NFC"}, "post_processor": BYTES},
    "DeepSeek": {"pre_tokenizer": sequence("pretokenizers", split(Regex=r"\p{N}{1,3}"), BYTES)},
    "a beginning": {"post_processor": post()},
}  # fmt: skip
DOUBTFUL = {
    "a text that grows": {"normalizer": replaced("b" * 9, String="a")},
    "an expression that grows": {"normalizer": replaced("b", Regex="a*")},
    "growth in sequence": {"normalizer": sequence("normalizers", *[replaced("aa", String="a")] * 16)},
    "bytes of bytes": {"pre_tokenizer": sequence("pretokenizers", *[BYTES] * 6)},
    "a long beginning": {"normalizer": {"type": "Prepend", "prepend": "a" * 100_000}},
    "an expression of many ways": {"pre_tokenizer": split(Regex="(a|a)*$")},
    "an empty text": {"pre_tokenizer": split(String="")},
    "an unknown step": {"pre_tokenizer": {"type": "Later"}},
    "a step without a type": {"normalizer": {}},
    "a list": {"normalizer": []},
    "copies": {"post_processor": post(copies=1000)},
    "many ids": {"post_processor": post(ids=1000)},
    "an answer that grows": {"decoder": replaced("b" * 1000, String="a")},
    "an end of no text": {"decoder": {"type": "Strip", "content": " ", "start": 0, "stop": 9}},
    "another model": {"model": {"type": "Unigram", "vocab": []}},
    "a model by chance": {"model": {"type": "BPE", "dropout": 0.5}},
}


def with_parts(parts: dict[str, Any]) -> dict[str, Any]:
    return json.loads(tokenizer().to_str()) | parts


@pytest.mark.parametrize("name", LINEAR)
def test_a_published_form_works_in_the_gateways_process(name: str) -> None:
    assert is_harmless(with_parts(LINEAR[name]))


@pytest.mark.parametrize("name", DOUBTFUL)
def test_any_other_form_works_elsewhere(name: str) -> None:
    assert not is_harmless(with_parts(DOUBTFUL[name]))


def test_every_published_expression_is_read() -> None:
    """A misspelt one would be without use, and nobody would notice."""
    from tokenizers import Regex, pre_tokenizers

    assert LLAMA_3 in SPLITS
    for expression in SPLITS:
        assert pre_tokenizers.Split(Regex(expression), "isolated").pre_tokenize_str("Don't 12 一\n")


class Untouched:
    """A tokenizer that this process may not use."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a doubtful tokenizer is used in the gateway's process")


async def spoiled(front: RunningGateway, parts: dict[str, Any]) -> None:
    """Gives the model another tokenizer, which the gateway's process then cannot use."""
    (front.settings_file.parent / "weights/tokenizer.json").write_text(json.dumps(with_parts(parts)))
    front.settings_file.write_text(front.settings_file.read_text() + " ")  # weights change with the settings
    await front.gateway.refresh()
    prompter: Any = front.gateway.prompters["llama"]
    assert not is_harmless(with_parts(parts))
    untouched: Any = Untouched()
    untouched.id_to_token = prompter._tokenizer.id_to_token  # a lookup, whoever wrote the file
    prompter._tokenizer = prompter._plain = untouched


@in_loop
async def test_a_doubtful_tokenizer_works_in_a_separate_process(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await front.chat()
        ids = (await front.ask("/tokenize", {"model": "llama", "prompt": "hello"})).json()["tokens"]
        detokenized = await front.ask("/v1/detokenize", {"model": "llama", "tokens": ids})
        await spoiled(front, {"normalizer": replaced("z", Regex="zz")})
        assert (await front.chat()).status == 200
        completion = await front.ask("/v1/completions", {"model": "llama", "prompt": "hello"})
        assert completion.status == 200
        prompts = [request.tensors["prompt_token_ids"] for request in front.triton.requests]
        assert prompts[0] == prompts[1]
        assert (await front.ask("/v1/tokenize", {"model": "llama", "text": "hello"})).status == 200
        again = await front.ask("/v1/detokenize", {"model": "llama", "tokens": ids})
        body = {"model": "llama", "prompt": "hello", "add_special_tokens": False}
        plain = (await front.ask("/tokenize", body)).json()["tokens"]
    assert again.json() == detokenized.json() == {**again.json(), "text": "hello"}
    assert plain == ids[1:], "the first id marks the beginning"


@pytest.mark.parametrize(
    "parts", [{"pre_tokenizer": split(Regex="(q|q)*$")}, {"normalizer": replaced("b" * 10**6, Regex="q")}]
)
@in_loop
async def test_a_tokenizer_that_panics_or_grows_ends_its_own_request(tmp_path: Path, parts: dict[str, Any]) -> None:
    """The first ended in a panic, which is no `Exception`; the other held all streams for minutes (2026-11-28)."""
    async with running_gateway(tmp_path) as front:
        await spoiled(front, parts)
        answer = await front.chat("q" * 500 + "!")
        assert answer.status == 400 and "takes too long" in answer.error["message"]
        assert (await front.chat("hello")).status == 200
