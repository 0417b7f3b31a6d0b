"""Chats: the LLM's input and the client's answer, streamed and unstreamed."""

from pathlib import Path

import pytest

from tests.gateway.asking import chat, in_loop, running_gateway
from tests.gateway.triton import Event, Script
from tests.gateway.weights import tokenizer

HUGE = {"name": "a", "schema": {"enum": ["x" * 70_000]}}


@in_loop
async def test_a_chat_is_answered_whole_with_its_usage(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat("hello")
        prompt = front.triton.requests[0].tensors["prompt_token_ids"]
    completion = answer.json()
    assert answer.status == 200
    assert completion["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello wörld", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert completion["usage"] == {
        "prompt_tokens": len(prompt),
        "completion_tokens": 5,
        "total_tokens": len(prompt) + 5,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert (completion["object"], completion["model"], completion["system_fingerprint"]) == (
        "chat.completion",
        "llama",
        "plan-1",
    )


@in_loop
async def test_a_stream_brings_each_event_then_its_usage_and_its_end(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat(stream=True, stream_options={"include_usage": True})
    *chunks, usage, end = answer.events
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo wörld"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]
    assert all(chunk["usage"] is None and chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert (usage["choices"], usage["usage"]["completion_tokens"], end) == ([], 5, "[DONE]")


@in_loop
async def test_a_stream_has_no_usage_unless_asked(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat(stream=True)
    assert all(event == "[DONE]" or "usage" not in event for event in answer.events)


@in_loop
async def test_the_llm_gets_ids_all_the_context_and_the_weights_own_sampling(tmp_path: Path) -> None:
    """The LLM's own defaults are 32 tokens and greedy decoding; OpenAI's clients expect sampling and the rest of the
    context."""
    async with running_gateway(tmp_path) as front:
        await front.chat()
        (request,) = front.triton.requests
    prompt = request.tensors.pop("prompt_token_ids")
    assert {name: [round(value, 4) for value in values] for name, values in request.tensors.items()} == {
        "sampling_param_max_tokens": [200 - len(prompt)],
        "sampling_param_temperature": [0.6],
        "sampling_param_top_k": [20],
        "sampling_param_top_p": [0.95],
        "return_counts": [True],
        "return_finish_reason": [True],
    }


@in_loop
async def test_sampling_fields_of_the_client_reach_the_llm(tmp_path: Path) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": {"type": "object"}}}
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script((Event("a", 1, "length", 2), Event("b", 0, "stop", 3)))
        answer = await front.chat(
            stream=False, max_completion_tokens=7, temperature=0.5, top_p=0.25, top_k=3, seed=-1, stop=["x", "yy"], n=2,
            frequency_penalty=1, presence_penalty=-1, min_tokens=2, response_format=schema,
        )  # fmt: skip
        tensors = front.triton.requests[0].tensors
    sampling = {name.removeprefix("sampling_param_"): value for name, value in tensors.items()}
    assert sampling["max_tokens"] == [7]
    assert (sampling["temperature"], sampling["top_p"], sampling["top_k"]) == ([0.5], [0.25], [3])
    assert (sampling["seed"], sampling["n"], sampling["min_tokens"]) == ([2**64 - 1], [2], [2])
    assert (sampling["frequency_penalty"], sampling["presence_penalty"], sampling["stop"]) == (
        [1.0],
        [-1.0],
        ["x", "yy"],
    )
    assert sampling["guided_decoding_guide_type"] == ["json_schema"]
    assert sampling["guided_decoding_guide"] == ['{"type": "object"}']
    choices = answer.json()["choices"]
    assert [(choice["message"]["content"], choice["finish_reason"]) for choice in choices] == [
        ("b", "stop"),
        ("a", "length"),
    ]
    assert answer.json()["usage"]["completion_tokens"] == 5


@in_loop
async def test_a_temperature_of_0_is_greedy(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        await front.chat(temperature=0)
        tensors = front.triton.requests[0].tensors
    assert tensors["sampling_param_temperature"] == [0.0]
    assert not {"sampling_param_top_p", "sampling_param_top_k"} & set(tensors)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"response_format": {"type": "json_schema", "json_schema": HUGE}}, "response_format.json_schema.schema"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"n": 0}, "n"),
        ({"n": True}, "n"),
        ({"temperature": 2.5}, "temperature"),
        ({"top_p": "1"}, "top_p"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": [""]}, "stop"),
        ({"temprature": 1}, "temprature"),
        ({"chat_template_kwargs": {"bos_token": "x"}}, "chat_template_kwargs.bos_token"),
        ({"stream": True, "stream_options": {"include_usages": True}}, "stream_options.include_usages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"ignore_eos": True}, "ignore_eos"),
        ({"chat_template": "x"}, "chat_template"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": "a", "tool_calls": [{}]}]}, "messages[0].tool_calls"),
    ],
)
@in_loop
async def test_an_unsupported_field_is_refused_by_its_name(tmp_path: Path, more: dict[str, object], param: str) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat(**more)
        assert front.triton.requests == []
    assert (answer.status, answer.error["param"], answer.error["type"]) == (400, param, "invalid_request_error")


@in_loop
async def test_a_field_with_a_neutral_value_is_accepted(tmp_path: Path) -> None:
    """Client libraries send fields with neutral values without being asked."""
    nothing = {"tools": [], "logprobs": False, "n": 1, "stop": None, "user": "me", "store": False, "logit_bias": {}}
    async with running_gateway(tmp_path) as front:
        assert (await front.chat(**nothing, response_format={"type": "text"}, service_tier="auto")).status == 200


@in_loop
async def test_a_prompt_beyond_the_context_is_refused_before_the_gpu(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.chat("the cat sat on the mat " * 60)
        too_long = await front.chat("hello", max_tokens=199)
        assert front.triton.requests == []
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "context_length_exceeded", "messages")
    assert too_long.error["code"] == "context_length_exceeded"


@in_loop
async def test_templates_read_parts_names_and_the_clients_variables(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "developer", "content": "x"}, {"role": "user", "name": "ann", "content": parts}]
    async with running_gateway(tmp_path) as front:
        await front.ask(
            "/v1/chat/completions", chat(messages=messages, chat_template_kwargs={"enable_thinking": False})
        )
        ids = front.triton.requests[0].tensors["prompt_token_ids"]
        text = front.gateway.prompters["llama"]._tokenizer.decode(ids, skip_special_tokens=False)
    assert text == (
        "<|bos|><|im_start|>system\nx<|im_end|>\n<|im_start|>user ann\na\nb<|im_end|>\n<|im_start|>assistant\n"
        "<think>\n\n</think>\n\n"
    )


@in_loop
async def test_an_interrupted_answer_is_an_error(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script((Event("Hel"),))
        whole, streamed = await front.chat(), await front.chat(stream=True)
    assert (whole.status, whole.headers["x-should-retry"]) == (502, "false")
    assert streamed.status == 200
    assert streamed.events[-1]["error"]["code"] == "upstream_error"


@in_loop
async def test_log_probabilities_have_each_tokens_text_and_bytes(tmp_path: Path) -> None:
    """`ö` is two tokens of this vocabulary; neither token alone is a text."""
    own = tokenizer()
    first, second = own.encode("ö", add_special_tokens=False).ids
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script((Event("", ids=(first,)), Event("ö", 0, "stop", 2, ids=(second,))))
        whole = (await front.chat(logprobs=True, top_logprobs=3)).json()["choices"][0]["logprobs"]["content"]
        bare = (await front.chat(logprobs=True)).json()["choices"][0]["logprobs"]["content"]
        streamed = (await front.chat(logprobs=True, top_logprobs=3, stream=True)).events
    assert [entry["bytes"] for entry in whole] == [[0xC3], [0xB6]]
    assert [(entry["token"], entry["logprob"]) for entry in whole] == [("\ufffd", -0.5), ("\ufffd", -0.5)]
    assert [entry["logprob"] for entry in whole[0]["top_logprobs"]] == [-0.5, -1.5]
    assert [entry["top_logprobs"] for entry in bare] == [[], []]
    choice_logprobs = [chunk["choices"][0]["logprobs"] for chunk in streamed[:-1]]
    assert [entry for logprobs in choice_logprobs if logprobs for entry in logprobs["content"]] == whole
