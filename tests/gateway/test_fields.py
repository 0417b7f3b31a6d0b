"""Every field of OpenAI's, Cohere's, Jina's and TEI's requests: honoured, refused, named in a header, or harmless.

An honoured field changes the model's request or the client's answer. A harmless field changes neither, and
files/gateway/README.md says so. A refused field is accepted with a value that has no effect. Fields as of openai 3.54,
cohere 7.3, TEI 1.9 and Jina's page of 2026-11.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.asking import CHAT, Answer, RunningGateway, in_loop
from tests.gateway.asking import running_gateway as plain_gateway
from tests.gateway.test_tools import ADD, HERMES, TOOLS_TEMPLATE

README = Path(__file__).parents[2] / "files/gateway/README.md"
EFFORT = TOOLS_TEMPLATE.replace("{{ bos_token }}", "{{ bos_token }}{{ reasoning_effort }}")
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
NEVER: Any = object()


@dataclass(frozen=True)
class Honoured:
    """An honoured field; `beside` lists fields that it needs."""

    value: Any
    beside: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """A refused field; `idle` is an accepted value without effect."""

    value: Any
    idle: Any = NEVER
    param: str = ""


@dataclass(frozen=True)
class Harmless:
    value: Any


@dataclass(frozen=True)
class Noted:
    """An ignored field that a header of the answer names; a strict gateway refuses it."""

    value: Any


Verdict = Honoured | Refused | Harmless | Noted
STREAMS = {"stream": True}
MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}

SAMPLED: dict[str, Verdict] = {
    "frequency_penalty": Honoured(0.5),
    "logit_bias": Refused({"5": 1}, idle={}),
    "max_tokens": Honoured(5),
    "n": Honoured(2),
    "presence_penalty": Honoured(0.5),
    "seed": Honoured(7),
    "stop": Honoured("x"),
    "stream": Honoured(True),
    "stream_options": Honoured({"include_usage": True}, STREAMS),
    "temperature": Honoured(0.1),
    "top_p": Honoured(0.5),
    "user": Harmless("somebody"),
    # vLLM's
    "top_k": Honoured(5),
    "min_p": Honoured(0.1),
    "repetition_penalty": Honoured(1.1),
    "min_tokens": Honoured(1),
    "colour": Noted("red"),
}
FIELDS: dict[str, dict[str, Verdict]] = {
    CHAT: SAMPLED
    | {
        "messages": Honoured([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hello"}]),
        "model": Honoured("another"),
        "audio": Refused({"voice": "alloy", "format": "wav"}),
        "function_call": Refused("auto", idle="none"),
        "functions": Refused([{"name": "a"}], idle=[]),
        "logprobs": Honoured(True),
        "max_completion_tokens": Honoured(5),
        "metadata": Noted({"a": "b"}),
        "modalities": Refused(["text", "audio"], idle=["text"]),
        "parallel_tool_calls": Honoured(False, {"tools": [ADD], "tool_choice": "required"}),
        "prediction": Noted({"type": "content", "content": "x"}),
        "prompt_cache_key": Harmless("mine"),
        "prompt_cache_retention": Noted("24h"),
        "reasoning_effort": Honoured("high"),
        "response_format": Honoured(SCHEMA),
        "safety_identifier": Harmless("somebody"),
        "service_tier": Noted("flex"),
        "store": Noted(True),
        "tool_choice": Honoured("required", {"tools": [ADD]}),
        "tools": Honoured([ADD]),
        "top_logprobs": Honoured(1, {"logprobs": True}),
        "verbosity": Noted("low"),
        "web_search_options": Refused({}),
        "enable_search": Refused(True, idle=False),
        "plugins": Refused([{"id": "web"}], idle=[]),
        "system": Refused("Be brief.", idle=""),
        "extra_body": Refused({"top_k": 1}, idle={}),
        "add_generation_prompt": Refused(False, idle=True),
        "continue_final_message": Refused(True, idle=False),
        "guided_choice": Honoured(["a", "b"]),
        "structured_outputs": Honoured({"regex": "a+"}),
        "cache_control": Noted({"type": "ephemeral"}),
        "include_reasoning": Noted(False),
        "reasoning_format": Noted("raw"),
        "safe_prompt": Refused(True, idle=False),
        "regex": Refused("a+"),
        "grammar": Refused('root ::= "a"'),
        "chat_template_kwargs": Honoured({"enable_thinking": False}),
    },
    "/v1/completions": SAMPLED
    | {
        "model": Honoured("another"),
        "prompt": Honoured("world"),
        "best_of": Refused(2, idle=1),
        "echo": Honoured(True),
        "logprobs": Honoured(2),
        "suffix": Refused("x", idle=""),
    },
    "/v1/embeddings": {
        "input": Honoured("world"),
        "normalize": Honoured(False),
        "prompt": Refused("query: "),
        "instruction": Refused("query: ", idle=""),
        "truncate_prompt_tokens": Refused(10),
        "truncation_direction": Refused("Left", idle="Right"),
        "model": Honoured("vectors"),
        "encoding_format": Honoured("base64"),
        "dimensions": Honoured(2),
        "user": Harmless("somebody"),
        "input_type": Honoured("query"),
        "task": Honoured("search_query"),
        "truncate": Honoured(True),
    },
    "/v1/rerank": {
        "model": Honoured("ranks"),
        "query": Honoured("b"),
        "documents": Honoured(["c"]),
        "top_n": Honoured(1),
        "return_documents": Honoured(True),
        "rank_fields": Refused(["title"], idle=["text"]),
        "max_chunks_per_doc": Noted(10),
        "max_tokens_per_doc": Refused(100, idle=4096),
        "priority": Noted(5),
        "truncation": Honoured(False),
        "raw_scores": Honoured(True),
        "instruction": Refused("a query"),
        "truncate_prompt_tokens": Refused(10, idle=-1),
        # Jina's
        "max_doc_length": Refused(100),
        "return_embeddings": Refused(True),
    },
    "/v2/rerank": {
        "model": Honoured("ranks"),
        "query": Honoured("b"),
        "documents": Honoured(["c"]),
        "top_n": Honoured(1),
        "max_tokens_per_doc": Refused(100, idle=4096),
        "priority": Noted(5),
        "return_documents": Honoured(True),
        "rank_fields": Refused(["title"]),
    },
    "/rerank": {
        "query": Honoured("b"),
        "texts": Honoured(["c"]),
        "raw_scores": Honoured(True),
        "return_text": Honoured(True),
        "truncate": Honoured(True),
        "truncation_direction": Refused("Left", idle="Right"),
    },
    "/embed": {
        "inputs": Honoured("world"),
        "truncate": Honoured(True),
        "normalize": Honoured(False),
        "dimensions": Honoured(2),
        "prompt_name": Refused("query"),
        "truncation_direction": Refused("Left", idle="Right"),
    },
}
RANKED = {"query": "a", "documents": ["a", "b"]}
PLAIN: dict[str, dict[str, Any]] = {
    CHAT: {"model": "llama", **MESSAGES},
    "/v1/completions": {"model": "llama", "prompt": "hello"},
    "/v1/embeddings": {"model": "nomic", "input": "hello"},
    "/v1/rerank": {"model": "bge", **RANKED},
    "/v2/rerank": {"model": "bge", **RANKED},
    "/rerank": {"query": "a", "texts": ["a", "b"]},
    "/embed": {"inputs": "hello"},
}


def running_gateway(folder: Path) -> Any:
    """Yields a gateway whose LLM has every capability of a model."""
    aliases = {"another": {"model": "llama"}, "vectors": {"model": "nomic"}, "ranks": {"model": "bge"}}
    return plain_gateway(folder, template=EFFORT, llm=HERMES | {"guided_decoding": True}, aliases=aliases)


async def outcome(front: RunningGateway, path: str, body: dict[str, Any]) -> tuple[Answer, object]:
    """Returns the answer, and the values to compare: the model's requests and the body without ids and times."""
    before = len(front.triton.requests)
    answer = await front.ask(path, body)
    requests = [(request.model, request.tensors, request.parameters) for request in front.triton.requests[before:]]
    body = re.sub(rb'"(id|created)":("[^"]*"|\d+)', b"", answer.body)
    return answer, (requests, body)


@pytest.mark.parametrize("path", FIELDS)
@in_loop
async def test_no_field_is_ignored_in_silence(tmp_path: Path, path: str) -> None:
    documented = README.read_text()
    async with running_gateway(tmp_path) as front:
        for name, verdict in FIELDS[path].items():
            plain = PLAIN[path] | (verdict.beside if isinstance(verdict, Honoured) else {})
            without, known = await outcome(front, path, plain)
            assert without.status == 200, (name, without.body)
            answer, seen = await outcome(front, path, plain | {name: verdict.value})
            if isinstance(verdict, Refused):
                assert answer.status == 400, (name, answer.body)
                refusal = answer.json()
                assert refusal["error"]["param"] == name if "message" in refusal else f"`{name}`" in refusal["error"], (
                    name
                )
                if verdict.idle is not NEVER:
                    _, seen = await outcome(front, path, plain | {name: verdict.idle})
                    assert seen == known, name
                continue
            assert answer.status == 200, (name, answer.body)
            assert (seen == known) == isinstance(verdict, Harmless | Noted), name
            assert (answer.headers.get("x-enginehouse-ignored") == name) == isinstance(verdict, Noted), name
            assert not isinstance(verdict, Harmless) or f"`{name}`" in documented, name


@in_loop
async def test_a_field_that_is_null_is_absent(tmp_path: Path) -> None:
    """Clients send all their fields, with null for unset fields."""
    async with running_gateway(tmp_path) as front:
        for path, fields in FIELDS.items():
            _, known = await outcome(front, path, PLAIN[path])
            answer, seen = await outcome(front, path, dict.fromkeys(fields) | PLAIN[path])
            assert (answer.status, seen == known) == (200, True), (path, answer.body)


@in_loop
async def test_stream_options_without_a_stream_are_refused(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat(stream_options={"include_usage": True})
    assert (answer.status, answer.error["param"]) == (400, "stream_options")
