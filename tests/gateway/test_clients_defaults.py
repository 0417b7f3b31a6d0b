"""Requests as unmodified clients send them by default: accepted, with the ignored fields named."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.asking import CHAT, KEY, chat, in_loop
from tests.gateway.asking import running_gateway as plain_gateway
from tests.gateway.test_tools import ADD, HERMES, TOOLS_TEMPLATE

IGNORED = "x-enginehouse-ignored"
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}


def running_gateway(folder: Path, **more: Any) -> Any:
    return plain_gateway(folder, template=TOOLS_TEMPLATE, llm=HERMES | {"guided_decoding": True}, **more)


def text_of(front: Any) -> str:
    """Returns the prompt that the model got, as text."""
    ids = front.triton.requests[-1].tensors["prompt_token_ids"]
    return str(front.gateway.prompters["llama"]._tokenizer.decode(ids, skip_special_tokens=False))


@in_loop
async def test_a_strict_tool_that_may_be_called_is_offered(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {**ADD["function"], "strict": True}}
    async with running_gateway(tmp_path) as front:
        answer = await front.chat(tools=[tool])
    assert (answer.status, answer.headers[IGNORED]) == (200, "tools[].function.strict")


@in_loop
async def test_the_previous_answer_is_accepted_back_as_a_message(tmp_path: Path) -> None:
    before = {
        "role": "assistant",
        "content": "yes",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
        "reasoning_content": "hm",
        "parsed": {"a": 1},
    }
    messages = [{"role": "user", "content": "a"}, before, {"role": "user", "content": "b"}]
    async with plain_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, chat(messages=messages))
        assert "hm" not in text_of(front)
    assert answer.status == 200, answer.body
    assert answer.headers[IGNORED] == "messages[].reasoning_content, messages[].parsed"


@in_loop
async def test_a_template_reads_reasoning_under_any_loop_variable(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.reasoning_content }}{{ m.content }}{% endfor %}"
    before = {"role": "assistant", "content": "yes", "reasoning": "hm"}
    async with plain_gateway(tmp_path, template=template) as front:
        answer = await front.ask(CHAT, chat(messages=[{"role": "user", "content": "a"}, before]))
        assert text_of(front) == "ahmyes"
    assert (answer.status, IGNORED in answer.headers) == (200, False)


@in_loop
async def test_a_history_of_calls_reaches_a_model_without_a_parser(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "name": "ann", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "seven"},
    ]
    async with plain_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, chat(messages=messages, reasoning_effort="low"))
        assert "tool\nseven" in text_of(front)
    assert (answer.status, answer.headers[IGNORED]) == (200, "messages[].tool_calls, reasoning_effort")


@in_loop
async def test_a_response_format_beside_tools_is_written_into_the_prompt(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat(tools=[ADD], response_format=SCHEMA)
        assert 'answer with JSON that keeps this schema: {"type": "object"}' in text_of(front)
        assert "guided_decoding_guide_type" not in front.triton.requests[0].tensors
        await front.chat(tools=[ADD], response_format=SCHEMA, tool_choice="none")
        assert front.triton.requests[1].tensors["guided_decoding_guide_type"] == ["json_schema"]
    assert (answer.status, answer.headers[IGNORED]) == (200, "response_format")


@in_loop
async def test_only_allowed_tools_are_offered(tmp_path: Path) -> None:
    unlisted_tool = {"type": "function", "function": {"name": "other"}}
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "add"}}]}
    async with running_gateway(tmp_path) as front:
        choice = {"type": "allowed_tools", "allowed_tools": allowed}
        answer = await front.chat(tools=[ADD, unlisted_tool], tool_choice=choice)
        assert '"other"' not in text_of(front) and '"add"' in text_of(front)
    assert answer.status == 200


@pytest.mark.parametrize(
    ("more", "kind", "guide"),
    [
        ({"guided_regex": "a+"}, "regex", "a+"),
        ({"guided_choice": ["a.b", "c"]}, "regex", r"a\.b|c"),
        ({"guided_json": {"type": "object"}}, "json_schema", '{"type": "object"}'),
        ({"structured_outputs": {"json": {"type": "object"}}}, "json_schema", '{"type": "object"}'),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "regex", "a|b"),
        ({"response_format": {"type": "json", "value": {"type": "object"}}}, "json_schema", '{"type": "object"}'),
        ({"response_format": {"type": "regex", "value": "a+"}}, "regex", "a+"),
    ],
)
@in_loop
async def test_vllms_and_hugging_faces_formats_hold_an_answer(
    tmp_path: Path, more: dict[str, Any], kind: str, guide: str
) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat(**more)
        tensors = front.triton.requests[0].tensors
    assert answer.status == 200
    guide_sent = (tensors["guided_decoding_guide_type"], tensors["guided_decoding_guide"])
    assert guide_sent == ([kind], [guide])


@in_loop
async def test_top_k_of_minus_one_samples_from_every_token(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await front.chat(top_k=-1)
        assert "sampling_param_top_k" not in front.triton.requests[0].tensors


EXTRAS = {"store": True, "metadata": {"a": "b"}, "verbosity": "low", "service_tier": "priority", "some_new_field": 1}


@in_loop
async def test_ignored_fields_are_named_in_a_header(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat(**EXTRAS)
        stream = await front.chat(**EXTRAS, stream=True)
        forged = await front.chat(**{"a\r\nset-cookie: x": 1, "z" * 5000: 2})
    wanted = "store, metadata, service_tier, verbosity, some_new_field"
    assert (answer.status, answer.headers[IGNORED]) == (200, wanted)
    assert (stream.status, stream.headers[IGNORED]) == (200, wanted)
    assert forged.headers[IGNORED] == "a??set-cookie??x, " + "z" * 64


@in_loop
async def test_a_strict_gateway_refuses_every_unknown_field(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, unknown_fields="refuse") as front:
        for name, value in EXTRAS.items():
            answer = await front.chat(**{name: value})
            assert (answer.status, answer.error["param"]) == (400, name)
        assert front.triton.requests == []


@pytest.mark.parametrize("name", ["logprobss", "temprature", "max_token"])
@in_loop
async def test_a_misspelt_field_is_refused(tmp_path: Path, name: str) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat(**{name: 1})
    assert (answer.status, answer.error["code"]) == (400, "unknown_parameter")


@in_loop
async def test_azures_clients_send_the_model_in_the_path_and_the_key_separately(tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "a"}]}
    async with running_gateway(tmp_path) as front:
        azure_options: dict[str, Any] = {"key": None, "headers": {"api-key": KEY}, "query": "api-version=2025-01-01"}
        answer = await front.ask("/openai/deployments/llama/chat/completions", body, **azure_options)
        wrong = await front.ask("/openai/deployments/llama/chat/completions", body, key=None)
    assert (answer.status, answer.json()["model"], IGNORED in answer.headers) == (200, "llama", False)
    assert wrong.status == 401


@pytest.mark.parametrize("path", ["/v1/models/", "/models", "/openai/v1/models", "/v1/models/llama/", "/version"])
@in_loop
async def test_paths_are_accepted_in_the_forms_that_clients_write(tmp_path: Path, path: str) -> None:
    async with running_gateway(tmp_path) as front:
        answer, head = await front.ask(path), await front.ask(path, method="HEAD")
    assert (answer.status, head.status, head.body) == (200, 200, b"")


@in_loop
async def test_a_query_may_not_have_a_key(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        key, unknown = (
            await front.ask("/v1/models", query="api_key=x"),
            await front.ask("/v1/models", query="colour=blue"),
        )
    assert (key.status, unknown.status, unknown.headers[IGNORED]) == (400, 200, "query")


@in_loop
async def test_a_gzip_body_has_the_bounds_of_a_plain_body(tmp_path: Path) -> None:
    zipped = gzip.compress(json.dumps(chat()).encode())
    headers = {"content-encoding": "gzip", "content-length": str(len(zipped))}
    bomb = gzip.compress(b" " * (20 * 2**20))
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, zipped, headers=headers)
        large = await front.ask(CHAT, bomb, headers=headers | {"content-length": str(len(bomb))})
        cut = await front.ask(CHAT, zipped[:-4], headers=headers | {"content-length": str(len(zipped) - 4)})
        plain = await front.ask(CHAT, chat(), headers={"content-encoding": "gzip"})
        held = front.gateway._bodies.total()
    assert [response.status for response in (answer, large, cut, plain)] == [200, 413, 400, 400]
    assert held == 0


@in_loop
async def test_a_json_body_posted_to_the_page_is_an_unknown_url(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/", {"inputs": "a"})
    assert (answer.status, answer.error["code"]) == (404, "unknown_url")


@in_loop
async def test_the_dialect_of_rerank_follows_the_shape_of_the_body(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/rerank", {"model": "bge", "query": "a", "documents": ["b", "a"], "top_n": 1})
    assert answer.json()["results"] == [{"index": 1, "relevance_score": 1.0}]


@in_loop
async def test_a_request_without_a_model_uses_the_default(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, default_embedder="nomic:query") as front:
        assert (await front.ask("/embed", {"inputs": "a"})).status == 200
        assert front.triton.requests[0].parameters["task"] == "search_query"


@pytest.mark.parametrize(
    ("more", "status", "task"),
    [
        ({"input_type": "query"}, 200, "search_query"),
        ({"input_type": "passage"}, 200, "search_document"),
        ({"input_type": "document", "task": "retrieval.passage"}, 200, "search_document"),
        ({"input_type": "query", "task": "search_document"}, 400, None),
        ({"input_type": "image"}, 400, None),
    ],
)
@in_loop
async def test_an_input_type_is_the_models_task(tmp_path: Path, more: Any, status: int, task: str | None) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/embeddings", {"model": "nomic", "input": "a", **more})
        tasks = [request.parameters["task"] for request in front.triton.requests]
    assert (answer.status, tasks) == (status, [task] if task else []), answer.body


@in_loop
async def test_gzip_of_blocks_without_content_is_refused_in_turns(tmp_path: Path) -> None:
    """Empty blocks unpack to no bytes, so that a limit on unpacked bytes alone would read them all at once."""
    packed = zlib.compressobj(wbits=31)
    body = packed.compress(b"") + b"".join(packed.flush(zlib.Z_FULL_FLUSH) for _ in range(50_000)) + packed.flush()
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/v1/embeddings", body, headers={"content-encoding": "gzip"})
    assert answer.status == 400


@in_loop
async def test_a_request_of_many_unknown_fields_is_refused(tmp_path: Path) -> None:
    """Each unknown field is compared with every known name."""
    async with running_gateway(tmp_path) as front:
        few = await front.ask(CHAT, chat(**{f"x_{number}": 1 for number in range(64)}))
        many = await front.ask(CHAT, chat(**{f"x_{number}": 1 for number in range(65)}))
    assert (few.status, many.status, many.error["code"]) == (200, 400, "unknown_parameter")


@in_loop
async def test_a_long_name_of_a_user_is_refused(tmp_path: Path) -> None:
    """The name would be held in memory as long as the model answers."""
    async with running_gateway(tmp_path) as front:
        answers = [await front.ask(CHAT, chat(**{name: "x" * 513})) for name in ("user", "prompt_cache_key")]
    assert [answer.status for answer in answers] == [400, 400]


@in_loop
async def test_the_beginning_of_an_answer_in_deepseeks_form_is_refused(tmp_path: Path) -> None:
    """It was passed over, and the model began a new message instead of continuing this one."""
    messages = [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "Tw", "prefix": True}]
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, {"model": "llama", "messages": messages})
    assert (answer.status, answer.error["param"]) == (400, "messages[1].prefix")
