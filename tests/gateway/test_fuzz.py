"""Bodies made at random: each is answered or refused as the client's mistake, and none breaks the gateway."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.asking import door

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
}
MODELS = {"/v1/embeddings": "nomic", "/v1/rerank": "bge", "/rerank": "bge"}
KEYS = ["role", "content", "type", "text", "name", "json_schema", "schema", "include_usage", "enable_thinking"]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
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
LIKELY |= {"texts": LIKELY["documents"]}


@st.composite
def bodies(draw: st.DrawFn, path: str) -> dict[str, Any]:
    """A body for the path, most of whose necessary fields are as they should be."""
    body: dict[str, Any] = {"model": MODELS.get(path, "llama")}
    for name in NAMES[path]:
        if name in LIKELY and draw(st.integers(0, 5)):
            body[name] = draw(LIKELY[name])
    for name in draw(st.lists(st.sampled_from(NAMES[path]), max_size=3, unique=True)):
        body[name] = draw(VALUES)
    return body


@pytest.mark.parametrize("path", NAMES)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_body_breaks_the_gateway(tmp_path: Path, path: str, data: st.DataObject) -> None:
    several = data.draw(st.lists(bodies(path), min_size=20, max_size=40))

    async def ask_all() -> None:
        async with door(tmp_path) as front:
            for body in several:
                answer = await front.ask(path, body)
                assert answer.status in (200, 400, 404), (body, answer.body)
                assert answer.status == 200 or answer.json()["error"]

    asyncio.run(ask_all())
