"""Calls as pages of client libraries and of other servers show them, in each dialect.

A field means the same wherever a client writes it: what would change the answer is honoured or refused by name.
Over 300 lines, because each dialect has the same questions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.rerank import SIDES
from tests.gateway.asking import CHAT, OTHER_KEY, in_loop
from tests.gateway.asking import running_gateway as plain_gateway
from tests.gateway.test_tools import HERMES, TOOLS_TEMPLATE, TURN, prompt_of, running_gateway

ANTHROPIC = {"anthropic-version": "2023-06-01"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
HELD = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
QUESTION: Any = {"messages": [{"role": "user", "content": "1?"}]}
PLAIN: dict[str, Any] = {
    CHAT: {"model": "llama", **QUESTION},
    "/v1/responses": {"model": "llama", "input": "1?"},
    "/v1/messages": {"model": "llama", "max_tokens": 50, **QUESTION},
    "/v2/chat": {"model": "llama", **QUESTION},
    "/v1/chat": {"model": "llama", "message": "1?"},
    "/v1/embeddings": {"model": "nomic", "input": "a"},
    "/v2/embed": {"model": "nomic", "texts": ["a"], "input_type": "search_query"},
    "/v1/rerank": {"model": "bge", "query": "a", "documents": ["b", "a"]},
    "/score": {"model": "bge", "text_1": "a", "text_2": ["b", "a"]},
}
DIALECTS = ("/v1/responses", "/v1/messages", "/v2/chat", "/v1/chat")
SAMPLED: tuple[tuple[str, Any, str], ...] = (
    ("seed", 3, "sampling_param_seed"),
    ("random_seed", 3, "sampling_param_seed"),
    ("stop", ["x"], "sampling_param_stop"),
    ("min_p", 0.1, "sampling_param_min_p"),
    ("top_k", 5, "sampling_param_top_k"),
    ("top_p", 0.5, "sampling_param_top_p"),
    ("frequency_penalty", 0.5, "sampling_param_frequency_penalty"),
    ("repetition_penalty", 1.1, "sampling_param_repetition_penalty"),
    ("guided_choice", ["a", "b"], "guided_decoding_guide"),
    ("structured_outputs", {"json": SCHEMA}, "guided_decoding_guide"),
)


def thinker(folder: Path) -> Any:
    """Yields a gateway whose LLM has tools, formats and a switch for its reasoning."""
    return running_gateway(folder, guided_decoding=True)


@pytest.mark.parametrize("path", DIALECTS)
@in_loop
async def test_a_dialect_honours_fields_of_a_chat_that_it_has_no_word_for(tmp_path: Path, path: str) -> None:
    """They were passed over until 2026-11-28: the answer was another one than the client had asked for."""
    async with thinker(tmp_path) as front:
        for name, value, tensor in SAMPLED:
            answer = await front.ask(path, PLAIN[path] | {name: value})
            assert answer.status == 200, (name, answer.body)
            assert tensor in front.triton.requests[-1].tensors, name
            assert "x-enginehouse-ignored" not in answer.headers, name
        await front.ask(path, PLAIN[path] | {"enable_thinking": False})
        assert "</think>" in prompt_of(front)


@pytest.mark.parametrize("path", DIALECTS)
@in_loop
async def test_a_dialect_refuses_options_that_its_answer_cannot_express(tmp_path: Path, path: str) -> None:
    neutral = {"n": 1, "logprobs": False, "logit_bias": {}, "best_of": 1}
    async with thinker(tmp_path) as front:
        for name, value in {"n": 2, "logprobs": True, "logit_bias": {"5": 1}, "best_of": 2}.items():
            answer = await front.ask(path, PLAIN[path] | {name: value})
            assert answer.status == 400 and f"`{name}`" in answer.error["message"], (name, answer.body)
        assert (await front.ask(path, PLAIN[path] | neutral)).status == 200


@in_loop
async def test_two_names_for_the_same_setting_are_refused(tmp_path: Path) -> None:
    async with thinker(tmp_path) as front:
        answer = await front.ask("/v1/messages", PLAIN["/v1/messages"] | {"stop_sequences": ["a"], "stop": ["b"]})
        twice = await front.ask("/v1/responses", PLAIN["/v1/responses"] | {"max_output_tokens": 9, "max_tokens": 8})
    assert "`stop` and `stop_sequences` mean the same" in answer.error["message"]
    assert (twice.status, twice.error["param"]) == (400, "max_tokens")


@in_loop
async def test_a_chats_format_in_another_dialect_holds_the_answer(tmp_path: Path) -> None:
    async with thinker(tmp_path) as front:
        for path in ("/v1/responses", "/v1/messages"):
            await front.ask(path, PLAIN[path] | {"response_format": HELD})
            assert json.loads(front.triton.requests[-1].tensors["guided_decoding_guide"][0]) == SCHEMA


@in_loop
async def test_anthropics_older_output_format_holds_the_answer(tmp_path: Path) -> None:
    form = {"type": "json_schema", "schema": SCHEMA}
    async with thinker(tmp_path) as front:
        await front.ask("/v1/messages", PLAIN["/v1/messages"] | {"output_format": form})
        assert json.loads(front.triton.requests[-1].tensors["guided_decoding_guide"][0]) == SCHEMA
        wrong = await front.ask("/v1/messages", PLAIN["/v1/messages"] | {"output_format": form | {"schema": 5}})
    assert wrong.status == 400 and "`output_format" in wrong.error["message"]


@pytest.mark.parametrize(
    ("more", "is_off"),
    [
        ({"enable_thinking": False}, True),
        ({"thinking": {"type": "disabled"}}, True),
        ({"thinking": {"type": "enabled"}}, False),
        ({"thinking": {"type": "auto"}}, False),
        ({"thinking": {"type": "disabled"}, "chat_template_kwargs": {"enable_thinking": True}}, False),
    ],
)
@in_loop
async def test_a_chat_turns_reasoning_off_in_the_words_of_other_servers(
    tmp_path: Path, more: dict[str, Any], is_off: bool
) -> None:
    async with thinker(tmp_path) as front:
        answer = await front.chat(**more)
        assert ("</think>" in prompt_of(front), "x-enginehouse-ignored" in answer.headers) == (is_off, False)


@in_loop
async def test_a_switch_that_the_template_does_not_read_is_named_in_the_header(tmp_path: Path) -> None:
    async with plain_gateway(
        tmp_path, template="{% for message in messages %}{{ message.content }}{% endfor %}"
    ) as front:
        answer = await front.chat(thinking={"type": "disabled"})
    assert (answer.status, answer.headers["x-enginehouse-ignored"]) == (200, "thinking")


@in_loop
async def test_a_template_that_calls_its_switch_thinking_hears_of_it(tmp_path: Path) -> None:
    template = TOOLS_TEMPLATE.replace("enable_thinking", "thinking")
    async with plain_gateway(tmp_path, template=template, llm=HERMES) as front:
        for path, more in ((CHAT, {"enable_thinking": False}), ("/v1/messages", {"thinking": {"type": "disabled"}})):
            await front.ask(path, PLAIN[path] | more)
            assert "</think>" in prompt_of(front), path


@in_loop
async def test_the_tokens_of_a_response_are_counted_without_asking_the_model(tmp_path: Path) -> None:
    async with thinker(tmp_path) as front:
        sent = PLAIN["/v1/responses"] | {"instructions": "Be brief."}
        counted = (await front.ask("/v1/responses/input_tokens", sent)).json()
        assert not front.triton.requests
        usage = (await front.ask("/v1/responses", sent)).json()["usage"]
    assert counted == {"object": "response.input_tokens", "input_tokens": usage["input_tokens"]}


@in_loop
async def test_tokens_are_counted_of_every_conversation_that_is_answered(tmp_path: Path) -> None:
    """A template without tools ignores calls. Until 2026-11-28 the count refused a message that was answered."""
    call, result = ({"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},), {"tool_use_id": "c1"}
    messages = [TURN[0], {"role": "assistant", "content": list(call)}]
    messages.append({"role": "user", "content": [{"type": "tool_result", **result, "content": "2"}]})
    async with plain_gateway(tmp_path) as front:
        sent = {"model": "llama", "max_tokens": 9, "messages": messages}
        statuses = [(await front.ask(path, sent)).status for path in ("/v1/messages", "/v1/messages/count_tokens")]
    assert statuses == [200, 200]


@in_loop
async def test_anthropics_clients_list_models_with_the_fields_that_they_read(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        page = (await front.ask("/v1/models", headers=ANTHROPIC)).json()
        single = (await front.ask("/v1/models/llama", headers=ANTHROPIC)).json()
        plain = (await front.ask("/v1/models")).json()
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, "bge", "nomic:query")
    assert (single["type"], single["display_name"], single["created_at"][:10]) == ("model", "llama", "2025-11-23")
    assert set(plain) == {"object", "data", "models"} and "type" not in plain["data"][0]


@pytest.mark.parametrize(
    ("more", "parameters"),
    [
        ({"truncation": True, "output_dimension": 2, "output_dtype": "float"}, {"truncate": True, "dimensions": 2}),
        ({"truncate": "END"}, {"truncate": True}),
        ({"truncate": "NONE"}, {"truncate": False}),
        ({"embedding_type": ["float"], "return_multivector": False}, {"truncate": False}),
    ],
)
@in_loop
async def test_fields_of_voyage_nvidia_and_jina_change_the_vectors(
    tmp_path: Path, more: dict[str, Any], parameters: dict[str, Any]
) -> None:
    async with plain_gateway(tmp_path) as front:
        answer = await front.ask("/v1/embeddings", PLAIN["/v1/embeddings"] | more)
        assert (answer.status, "x-enginehouse-ignored" in answer.headers) == (200, False)
        assert front.triton.requests[-1].parameters == parameters


@pytest.mark.parametrize(
    ("path", "more", "param"),
    [
        ("/v1/embeddings", {"truncate": "START"}, "truncate"),
        ("/v1/embeddings", {"truncation": "yes"}, "truncation"),
        ("/v1/embeddings", {"output_dtype": "int8"}, "output_dtype"),
        ("/v1/embeddings", {"embedding_type": ["float", "base64"]}, "embedding_type"),
        ("/v1/embeddings", {"return_multivector": True}, "return_multivector"),
        ("/v1/responses", {"prompt": {"id": "pmpt_1"}}, "prompt"),
        (CHAT, {"thinking": {"type": "often"}}, "thinking.type"),
        (CHAT, {"stop": "x" * 5000}, "stop"),
        ("/v1/rerank", {"top_k": 0}, "top_k"),
        ("/score", {"text_1": ["a", "b", "c"]}, "text_1"),
        ("/score", {"text_1": ["a", 5]}, "text_1[1]"),
        ("/score", {"truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
        ("/score", {"use_activation": False}, "use_activation"),
        ("/tokenize", {"inputs": "a"}, "inputs"),
        ("/v2/embed", {"model": "nomic", "images": ["data:image/png;base64,AA"]}, "images"),
    ],
)
@in_loop
async def test_an_example_that_cannot_be_answered_is_refused_by_its_field(
    tmp_path: Path, path: str, more: dict[str, Any], param: str
) -> None:
    async with thinker(tmp_path) as front:
        answer = await front.ask(path, PLAIN.get(path, {}) | more)
        assert (answer.status, answer.error["param"]) == (400, param), answer.body
        assert not front.triton.requests


@in_loop
async def test_a_document_keeps_its_other_fields_and_voyages_top_k_limits_the_answer(tmp_path: Path) -> None:
    documents = [{"text": "b", "title": "B"}, {"text": "a", "title": "A"}]
    async with plain_gateway(tmp_path) as front:
        sent = PLAIN["/v1/rerank"] | {"documents": documents, "return_documents": True, "top_k": 1}
        results = (await front.ask("/v1/rerank", sent)).json()["results"]
    assert results == [{"index": 1, "relevance_score": 1.0, "document": documents[1]}]


@in_loop
async def test_mistrals_any_requires_a_call(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}]
    async with thinker(tmp_path) as front:
        await front.chat(tools=tools, tool_choice="any")
        assert "guided_decoding_guide" in front.triton.requests[-1].tensors
        budget = {"thinking": {"type": "enabled", "token_budget": 500}}
        assert (await front.ask("/v2/chat", PLAIN["/v2/chat"] | budget)).status == 200


@pytest.mark.parametrize("path", [CHAT, *DIALECTS])
@in_loop
async def test_a_held_answer_of_a_model_that_reasons_names_the_clients_model(tmp_path: Path, path: str) -> None:
    """Until 2026-11-28 it had the name of the template's switch: `"model": "enable_thinking"`."""
    async with thinker(tmp_path) as front:
        answer = await front.ask(path, PLAIN[path] | {"guided_json": SCHEMA})
    assert answer.status == 200 and b"enable_thinking" not in answer.body
    assert answer.json().get("model", "llama") == "llama"


@in_loop
async def test_voyages_client_gets_its_own_list_and_may_refuse_a_cut(tmp_path: Path) -> None:
    sent = PLAIN["/v1/rerank"] | {"truncation": True, "return_documents": True}
    async with plain_gateway(tmp_path) as front:
        answer = (await front.ask("/v1/rerank", sent)).json()
        await front.ask("/v1/rerank", sent | {"truncation": False})
        cuts = [request.parameters["truncate"] for request in front.triton.requests]
        cohere = (await front.ask("/v1/rerank", PLAIN["/v1/rerank"])).json()
    assert [(result["index"], result["document"]) for result in answer["data"]] == [(1, "a"), (0, "b")]
    assert [result["document"] for result in answer["results"]] == [{"text": "a"}, {"text": "b"}]
    assert (cuts, answer["usage"]["total_tokens"] > 0, "data" in cohere) == ([True, False], True, False)


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
@in_loop
async def test_vllms_score_keeps_the_order_of_the_texts(tmp_path: Path, path: str) -> None:
    async with plain_gateway(tmp_path) as front:
        several = (await front.ask(path, PLAIN["/score"])).json()
        single = (await front.ask(path, {"model": "bge", "queries": ["a"], "documents": "a"})).json()
        await front.ask(path, PLAIN["/score"] | {"truncate_prompt_tokens": -1})
        cuts = [request.parameters["truncate"] for request in front.triton.requests]
    assert [(entry["index"], entry["object"], entry["score"]) for entry in several["data"]] == [
        (0, "score", 0.0), (1, "score", 1.0),
    ]  # fmt: skip
    assert (several["object"], several["model"], len(single["data"])) == ("list", "bge", 1)
    assert (several["usage"]["prompt_tokens"] > 0, cuts) == (True, [False, False, True])


@pytest.mark.parametrize("sides", SIDES)
@in_loop
async def test_vllms_score_pairs_the_texts_of_two_lists(tmp_path: Path, sides: tuple[str, str]) -> None:
    first, second = ["a", "b", "a", "c"], ["a", "a", "b", "c"]
    async with plain_gateway(tmp_path) as front:
        answer = await front.ask("/score", {"model": "bge"} | dict(zip(sides, (first, second), strict=True)))
        queries = [request.tensors["query"] for request in front.triton.requests]
        single = await front.ask("/score", {"model": "bge"} | dict(zip(sides, (["a"], second), strict=True)))
    scores = [(entry["index"], entry["score"]) for entry in answer.json()["data"]]
    assert scores == [(0, 1.0), (1, 0.0), (2, 0.0), (3, 1.0)]
    assert queries == [["a"], ["b"], ["c"]]
    assert [entry["score"] for entry in single.json()["data"]] == [1.0, 1.0, 0.0, 0.0]


@in_loop
async def test_vllms_tokenizer_is_asked_with_and_without_special_tokens(tmp_path: Path) -> None:
    """lm-eval compares prompts by these ids; the switch was ignored until 2026-11-28."""
    async with plain_gateway(tmp_path) as front:
        answers = [
            (await front.ask("/tokenize", {"model": "llama", "prompt": text, "return_token_strs": True, **more})).json()
            for text in ("hello", "hello " * 2000)
            for more in ({}, {"add_special_tokens": False})
        ]
        texts = [
            (await front.ask("/detokenize", {"model": "llama", "tokens": answer["tokens"]})).json()["prompt"]
            for answer in answers[:2]
        ]
        wrong = await front.ask("/detokenize", {"model": "llama", "tokens": [10**6]})
        chat = {"model": "llama", **QUESTION}
        refused = await front.ask("/tokenize", chat | {"add_special_tokens": True})
        spelled = (await front.ask("/tokenize", chat | {"return_token_strs": True})).json()
    for special, plain in (answers[:2], answers[2:]):
        assert (special["tokens"][1:], special["token_strs"][1:]) == (plain["tokens"], plain["token_strs"])
        assert (special["token_strs"][0], plain["count"]) == ("<|bos|>", len(plain["tokens"]))
    assert texts == ["hello", "hello"]
    assert (wrong.status, wrong.error["param"]) == (400, "tokens")
    assert (refused.status, refused.error["param"]) == (400, "add_special_tokens")
    assert len(spelled["token_strs"]) == spelled["count"]


@pytest.mark.parametrize(
    ("path", "name", "value", "meant"),
    [
        (CHAT, "system", "Be brief.", "messages"),
        (CHAT, "instructions", "Be brief.", "messages"),
        (CHAT, "stop_sequences", ["x"], "stop"),
        (CHAT, "n_predict", 5, "max_tokens"),
        (CHAT, "maxOutputTokens", 5, "max_tokens"),
        (CHAT, "topP", 0.5, "top_p"),
        (CHAT, "format", "json", "response_format"),
        (CHAT, "repeat_penalty", 1.1, "repetition_penalty"),
        (CHAT, "options", {"temperature": 0}, "model"),
        (CHAT, "extra_body", {"top_k": 1}, "model"),
        ("/v1/responses", "system", "Be brief.", "instructions"),
        ("/v1/responses", "stop_sequences", ["x"], "stop"),
        ("/v1/messages", "instructions", "Be brief.", "system"),
        ("/v2/chat", "preamble", "Be brief.", "messages"),
        ("/v1/embeddings", "truncate_dim", 2, "dimensions"),
        ("/v1/embeddings", "prompt_name", "query", "input_type"),
        ("/v1/embeddings", "text_type", "query", "input_type"),
        ("/v2/embed", "taskType", "RETRIEVAL_QUERY", "input_type"),
    ],
)
@in_loop
async def test_a_word_of_another_api_is_refused_with_the_word_of_this_one(
    tmp_path: Path, path: str, name: str, value: Any, meant: str
) -> None:
    """The instruction or the limit was ignored until 2026-11-28; an empty one still is."""
    async with thinker(tmp_path) as front:
        refused = await front.ask(path, PLAIN[path] | {name: value})
        empty = await front.ask(path, PLAIN[path] | {name: type(value)()})
    assert (refused.status, empty.status, empty.headers["x-enginehouse-ignored"]) == (400, 200, name)
    message = (refused.json().get("error") or refused.json())["message"]
    assert f"`{name}`" in message and f"`{meant}`" in message


@pytest.mark.parametrize(
    ("path", "name", "value", "reason"),
    [
        ("/embed", "task", "query", "a task is part of a model's name"),
        ("/v1/embeddings", "template", "query: ", "no text is added to an input"),
        ("/v1/messages", "num_return_sequences", 2, "this path answers with one text"),
    ],
)
@in_loop
async def test_a_word_for_a_field_that_is_refused_gets_the_reason(
    tmp_path: Path, path: str, name: str, value: Any, reason: str
) -> None:
    """The hint led to a field that was refused in turn (2026-11-28)."""
    async with thinker(tmp_path) as front:
        answer = await front.ask(path, PLAIN.get(path, {"inputs": "a"}) | {name: value})
        neutral = await front.ask("/v1/messages", PLAIN["/v1/messages"] | {"num_return_sequences": 1})
    assert answer.status == 400 and f"`{name}`: {reason}" in str(answer.json())
    assert (neutral.status, neutral.headers["x-enginehouse-ignored"]) == (200, "num_return_sequences")


@pytest.mark.parametrize("name", ["enable_search", "search_parameters", "plugins"])
@in_loop
async def test_a_search_is_refused_in_every_vendors_words(tmp_path: Path, name: str) -> None:
    wanted = {"enable_search": True, "search_parameters": {"mode": "on"}, "plugins": [{"id": "web"}]}[name]
    async with thinker(tmp_path) as front:
        for path in (CHAT, *DIALECTS):
            answer = await front.ask(path, PLAIN[path] | {name: wanted})
            assert answer.status == 400 and f"`{name}`" in str(answer.json()), path


@in_loop
async def test_settings_that_an_answer_without_them_keeps_are_listed(tmp_path: Path) -> None:
    """An input that is too long is refused in any case, and an answer without citations has the same text."""
    async with thinker(tmp_path) as front:
        long = await front.ask("/v1/responses", PLAIN["/v1/responses"] | {"truncation": "auto"})
        cited = await front.ask("/v2/chat", PLAIN["/v2/chat"] | {"citation_options": {"mode": "FAST"}})
    assert [answer.headers["x-enginehouse-ignored"] for answer in (long, cited)] == [
        "truncation", "citation_options.mode",
    ]  # fmt: skip


@in_loop
async def test_no_effort_turns_reasoning_off(tmp_path: Path) -> None:
    async with thinker(tmp_path) as front:
        answer = await front.chat(reasoning_effort="none")
        assert ("</think>" in prompt_of(front), "x-enginehouse-ignored" in answer.headers) == (True, False)
        await front.chat(reasoning_effort="none", enable_thinking=True)
        assert "</think>" not in prompt_of(front)


@in_loop
async def test_teis_info_describes_the_default_encoder(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path, default_embedder="nomic:query") as front:
        default, only = await front.ask("/info"), await front.ask("/info", key=OTHER_KEY)
    async with plain_gateway(tmp_path) as front:
        refused = await front.ask("/info")
    assert [answer.json()["model_type"] for answer in (default, only)] == [{"embedding": {}}, {"reranker": {}}]
    assert refused.status == 400


@in_loop
async def test_coheres_client_lists_models_of_an_endpoint(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        page = (await front.ask("/v1/models")).json()
        rerankers = await front.ask("/v1/models", query="endpoint=rerank")
        single = (await front.ask("/v1/models/llama")).json()
    assert [model["name"] for model in page["models"]] == [model["id"] for model in page["data"]]
    assert rerankers.json()["models"] == [
        {"name": "bge", "endpoints": ["rerank"], "finetuned": False, "context_length": 512}
    ]
    assert "x-enginehouse-ignored" not in rerankers.headers
    assert (single["name"], single["endpoints"]) == ("llama", ["chat"])


@in_loop
async def test_tei_clients_of_openais_embeddings_name_no_model(tmp_path: Path) -> None:
    async with plain_gateway(tmp_path) as front:
        answer = (await front.ask("/v1/embeddings", {"input": "a"})).json()
        refused = await front.ask("/v1/embeddings", {"input": "a"}, key=OTHER_KEY)
    assert (answer["model"], len(answer["data"])) == ("nomic", 1)
    assert (refused.status, refused.error["param"]) == (400, "model")
