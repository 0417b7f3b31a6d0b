"""Random bodies: the gateway answers each one or refuses it as a client error, and never fails itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.asking import running_gateway
from tests.gateway.weights import TEMPLATE

NAMES = {
    "/v1/chat/completions": [
        *(
            "messages",
            "max_tokens",
            "max_completion_tokens",
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "seed",
            "stop",
            "n",
        ),
        *(
            "logprobs",
            "top_logprobs",
            "response_format",
            "stream_options",
            "tools",
            "tool_choice",
            "logit_bias",
            "user",
        ),
        *("chat_template_kwargs", "reasoning_effort", "min_tokens", "metadata", "store", "modalities", "unknown"),
    ],
    "/v1/completions": ["prompt", "max_tokens", "temperature", "stop", "n", "echo", "logprobs", "suffix", "best_of"],
    "/v1/embeddings": ["input", "dimensions", "encoding_format", "task", "truncate", "user"],
    "/v1/rerank": ["query", "documents", "top_n", "return_documents", "rank_fields", "max_tokens_per_doc"],
    "/rerank": ["query", "texts", "raw_scores", "return_text", "truncate", "truncation_direction"],
    "/tokenize": ["messages", "prompt", "chat_template_kwargs"],
    "/v1/responses": [
        *("input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "metadata"),
        *("max_output_tokens", "store", "stream_options", "include", "previous_response_id", "top_p", "unknown"),
    ],
    "/v1/messages": [
        *("messages", "system", "max_tokens", "tools", "tool_choice", "thinking", "output_config", "metadata", "top_k"),
        *("stop_sequences", "temperature", "cache_control", "mcp_servers", "unknown"),
    ],
    "/v1/messages/count_tokens": ["messages", "system", "tools", "tool_choice", "thinking", "output_config"],
    "/v1/chat": [
        *("message", "preamble", "chat_history", "tool_results", "tools", "response_format", "k", "p", "max_tokens"),
        *("stop_sequences", "documents", "connectors", "conversation_id", "citation_quality", "unknown"),
    ],
    "/v2/chat": [
        *("messages", "tools", "tool_choice", "response_format", "k", "p", "max_tokens", "stop_sequences", "thinking"),
        *("documents", "citation_options", "logprobs", "strict_tools", "unknown"),
    ],
    "/v1/embed": ["texts", "input_type", "embedding_types", "truncate", "images"],
    "/v2/embed": ["texts", "inputs", "input_type", "embedding_types", "truncate", "output_dimension", "max_tokens"],
    "/v1/tokenize": ["text"],
    "/v1/detokenize": ["tokens"],
}
MODELS = {"/v1/embeddings": "nomic", "/v1/rerank": "bge", "/rerank": "bge", "/v1/embed": "nomic", "/v2/embed": "nomic"}
BLOCKS = ["thinking", "tool_use", "tool_result", "input", "id", "tool_use_id", "input_schema", "format", "effort"]
KEYS = [
    *BLOCKS,
    "call_id",
    "output",
    "arguments",
    "summary",
    "tool_calls",
    "function",
    "mode",
    "role",
    "content",
    "type",
    "text",
    "name",
    "json_schema",
    "schema",
    "include_usage",
    "enable_thinking",
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 5),
    st.sampled_from([10**400, -(10**400), 2**63, 1e308, -1e308, 5e-324]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["tool_use", "tool_result", "thinking", "function_call", "function_call_output", "reasoning"]),
    st.sampled_from(
        ["user", "system", "assistant", "text", "json_object", "json_schema", "base64", "<|im_end|>", "a\x00"]
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "assistant"]), "content": st.text(max_size=20)}),
    min_size=1,
    max_size=3,
)
LIKELY = {
    "messages": MESSAGES,
    "query": st.text(max_size=9),
    "prompt": st.text(max_size=9),
    "input": st.text(max_size=9),
}
LIKELY |= {"documents": st.lists(st.text(max_size=9), min_size=1, max_size=5)}
LIKELY |= {"text": st.text(max_size=9), "tokens": st.lists(st.integers(0, 300), min_size=1, max_size=5)}
LIKELY |= {"message": st.text(max_size=9)}
LIKELY |= {"max_tokens": st.integers(1, 9), "input_type": st.sampled_from(["search_query", "clustering"])}
LIKELY |= {"texts": LIKELY["documents"]}
SCHEMA_WORDS = ["$ref", "$defs", "items", "anyOf", "pattern", "minLength", "maxItems", "properties", "enum"]
SCHEMAS = st.recursive(
    LEAVES | st.sampled_from(["#", "#/$defs/a", "#/items", "http://a/b", "a{3}", "[[", "(((", "{1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SCHEMA_WORDS, "a"]), inner),
    max_leaves=12,
)
FUNCTIONS = st.fixed_dictionaries({"name": st.sampled_from(["a", "b"])}, optional={"parameters": SCHEMAS})
CALLS = st.fixed_dictionaries({
    "id": st.just("1") | VALUES,
    "type": st.just("function"),
    "function": st.fixed_dictionaries({"name": st.just("a") | VALUES, "arguments": st.text(max_size=9) | VALUES}),
})  # fmt: skip
KINDS = ["text", "thinking", "tool_use", "tool_result", "message", "function_call", "function_call_output", "reasoning"]
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={name: st.just("1") | VALUES for name in ("id", "call_id", "tool_use_id", "name")}
    | {name: st.text(max_size=9) | VALUES for name in ("text", "thinking", "content", "output", "arguments", "role")}
    | {"input": st.dictionaries(st.text(max_size=3), VALUES, max_size=2) | VALUES, "summary": VALUES},
)
"""Items of Responses, and blocks of Messages."""
OLD_CALLS = st.fixed_dictionaries(
    {"name": st.just("a") | VALUES, "parameters": st.just({}) | st.dictionaries(st.text(max_size=3), VALUES) | VALUES}
)
RESULTS = st.lists(
    st.fixed_dictionaries({"call": OLD_CALLS, "outputs": st.lists(VALUES, max_size=2) | VALUES}), max_size=3
)
OLD_TOOLS = st.fixed_dictionaries({
    "name": st.sampled_from(["a", "b"]),
    "parameter_definitions": st.dictionaries(st.text(max_size=3), st.fixed_dictionaries({
        "type": st.sampled_from(["int", "List[str]", "list[list]", "?"]) | VALUES, "required": st.booleans(),
    }), max_size=2) | VALUES,
})  # fmt: skip
"""Calls, results and tools of Cohere's first chat."""
FORMS = st.fixed_dictionaries({
    "type": st.just("json_schema"),
    "json_schema": st.fixed_dictionaries({"name": st.just("x"), "schema": SCHEMAS}),
})  # fmt: skip
DEEP: dict[str, st.SearchStrategy[Any]] = {
    "input": st.lists(PARTS, min_size=1, max_size=3),
    "response_format": FORMS,
    "tools": st.lists(
        OLD_TOOLS | st.fixed_dictionaries({"type": st.just("function"), "function": FUNCTIONS}), max_size=3
    ),
    "tool_results": RESULTS,
    "chat_history": st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["USER", "CHATBOT", "TOOL", "SYSTEM"])},
            optional={"message": st.text(max_size=9) | VALUES, "tool_calls": st.lists(OLD_CALLS, max_size=2) | VALUES,
                      "tool_results": RESULTS | VALUES},
        ), max_size=3,
    ),
    "tool_choice": st.sampled_from(["required", "auto", "none"]) | VALUES,
    "messages": st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
            optional={"content": st.text(max_size=9) | VALUES | st.lists(PARTS, max_size=3),
                      "tool_calls": st.lists(CALLS, max_size=2) | VALUES, "name": VALUES,
                      "reasoning_content": VALUES, "tool_call_id": st.just("1") | VALUES},
        ), min_size=1, max_size=3,
    ),
}  # fmt: skip
"""Values that pass `Fields` and reach the readers behind it: schemas, tools, calls."""


CALLS_TOOLS = {"tool_parser": "hermes", "reasoning_parser": "qwen3"}
SHOWS_TOOLS = "{{ tools | tojson if tools }}{% for m in messages if m.tool_calls %}{% endfor %}" + TEMPLATE


@st.composite
def bodies(draw: st.DrawFn, path: str) -> dict[str, Any]:
    """Draws a body for the path; most of its required fields are valid."""
    body: dict[str, Any] = {"model": MODELS.get(path, "llama")}
    for name in NAMES[path]:
        if name in LIKELY and not (name == "text" and path == "/v1/responses") and draw(st.integers(0, 5)):
            body[name] = draw(LIKELY[name])
    for name in draw(st.lists(st.sampled_from(NAMES[path]), max_size=3, unique=True)):
        body[name] = draw(DEEP[name] | VALUES if name in DEEP else VALUES)
    return body


@pytest.mark.parametrize("path", NAMES)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_body_breaks_the_gateway(tmp_path: Path, path: str, data: st.DataObject) -> None:
    several = data.draw(st.lists(bodies(path), min_size=20, max_size=40))

    async def ask_all() -> None:
        async with running_gateway(tmp_path, llm=CALLS_TOOLS, template=SHOWS_TOOLS) as front:
            for body in several:
                answer = await front.ask(path, body)
                assert answer.status in (200, 400, 404), (body, answer.body)
                assert answer.status == 200 or answer.json()["error"]

    asyncio.run(ask_all())
