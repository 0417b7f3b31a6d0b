"""OpenAI's own client, unmodified: it understands every answer, and the numbers in it are right."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import openai
import pydantic
import pytest
import tritonclient.grpc

from tests.clients.conftest import Stack
from tests.gateway.triton import Event, Script, vector

TEXT = "Hello wörld"
PROMPT = "<|bos|><|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
"""The prompt that the template makes of the message below."""
HELLO: Any = [{"role": "user", "content": "hello"}]


@pytest.fixture
def client(stack: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key=stack.key) as client:
        yield client


def says(stack: Stack, *texts: str, tokens: int | None = None) -> None:
    """Makes the model write these pieces."""
    count = stack.tokens("".join(texts)) if tokens is None else tokens
    pieces = [Event(text) for text in texts]
    stack.triton.script = Script((*pieces, Event("", finish="stop", tokens=count, cached=2)))


def test_a_chat_has_the_models_text_and_the_tokenizers_counts(stack: Stack, client: openai.OpenAI) -> None:
    says(stack, TEXT)
    answer = client.chat.completions.create(model="llama", messages=HELLO, seed=7, max_completion_tokens=50)
    assert answer.choices[0].message.content == TEXT
    assert (answer.choices[0].finish_reason, answer.choices[0].message.role) == ("stop", "assistant")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (stack.tokens(PROMPT), stack.tokens(TEXT))
    assert answer.usage.total_tokens == stack.tokens(PROMPT) + stack.tokens(TEXT)
    assert answer.usage.prompt_tokens_details is not None and answer.usage.prompt_tokens_details.cached_tokens == 0


def test_a_chat_streams_every_piece_as_it_is_written(stack: Stack, client: openai.OpenAI) -> None:
    says(stack, "Hel", "lo", " wörld")
    options: Any = {"include_usage": True}
    stream = client.chat.completions.create(model="llama", messages=HELLO, stream=True, stream_options=options)
    chunks = list(stream)
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert [choice.delta.content for choice in choices if choice.delta.content] == ["Hel", "lo", " wörld"]
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert choices[0].delta.role == "assistant"
    usage = chunks[-1].usage
    assert usage is not None and usage.completion_tokens == stack.tokens(TEXT)
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_clients_own_collector_of_a_stream_ends_with_the_whole_text(stack: Stack, client: openai.OpenAI) -> None:
    says(stack, "Hel", "lo", " wörld")
    with client.chat.completions.stream(model="llama", messages=HELLO) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert [delta for delta in deltas if delta] == ["Hel", "lo", " wörld"]
    assert final.choices[0].message.content == TEXT


def test_the_asynchronous_client_streams_as_well(stack: Stack) -> None:
    async def text() -> str:
        async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=stack.key) as client:
            stream = await client.chat.completions.create(model="llama", messages=HELLO, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(text()) == TEXT


def test_several_answers_and_log_probabilities(stack: Stack, client: openai.OpenAI) -> None:
    events = [Event("ab"[number], sequence=number, ids=(65 + number,)) for number in range(2)]
    events += [Event("", sequence=number, finish="length", tokens=1) for number in range(2)]
    stack.triton.script = Script(tuple(events))
    answer = client.chat.completions.create(
        model="llama", messages=HELLO, n=2, temperature=0.7, logprobs=True, top_logprobs=2
    )
    assert [choice.message.content for choice in answer.choices] == ["a", "b"]
    assert [choice.finish_reason for choice in answer.choices] == ["length"] * 2
    entries = [choice.logprobs.content for choice in answer.choices if choice.logprobs]
    assert [alternatives[0].logprob for alternatives in entries if alternatives] == [-0.5, -0.5]
    assert [len(alternatives[0].top_logprobs) for alternatives in entries if alternatives] == [2, 2]


class Cat(pydantic.BaseModel):
    """The class whose fields are the schema of the model's answer."""

    name: str
    legs: int


def test_an_answer_is_parsed_into_the_class_that_gave_its_schema(stack: Stack, client: openai.OpenAI) -> None:
    says(stack, '{"name": "Tom", ', '"legs": 4}')
    answer = client.chat.completions.parse(model="llama", messages=HELLO, response_format=Cat)
    assert answer.choices[0].message.parsed == Cat(name="Tom", legs=4)
    tensors = stack.triton.requests[0].tensors
    assert tensors["guided_decoding_guide_type"] == ["json_schema"]
    assert '"legs"' in tensors["guided_decoding_guide"][0]


def test_a_completion_continues_the_unchanged_prompt(stack: Stack, client: openai.OpenAI) -> None:
    answer = client.completions.create(model="llama", prompt="the cat", max_tokens=9)
    assert answer.choices[0].text == TEXT
    assert answer.usage is not None and answer.usage.prompt_tokens == 1 + stack.tokens("the cat")  # and its BOS


@pytest.mark.parametrize("prompts", [["the cat", "the mat"], [[5], [6, 7]]])
def test_completions_of_several_prompts_keep_their_order(
    stack: Stack, client: openai.OpenAI, prompts: list[Any]
) -> None:
    answer = client.completions.create(model="llama", prompt=prompts, max_tokens=9, n=2, best_of=1, logprobs=0)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    texts = dict.fromkeys(range(4), "")
    for event in client.completions.create(model="llama", prompt=prompts, max_tokens=9, n=2, stream=True):
        for choice in event.choices:
            texts[choice.index] += choice.text
    assert texts == dict.fromkeys(range(4), TEXT) == {choice.index: choice.text for choice in answer.choices}


TEXTS = ["a", "the cat sat", "", "猫", "on the mat"]


def directly(stack: Stack, text: str, **options: Any) -> list[float]:
    """Returns the model's own vector over gRPC."""
    with tritonclient.grpc.InferenceServerClient(stack.triton.address) as triton:
        tensor = tritonclient.grpc.InferInput("texts", [1, 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[text.encode()]], dtype=object))
        vectors = triton.infer("nomic", [tensor], parameters=options).as_numpy("embeddings")
    return [float(value) for value in vectors.reshape(-1)]


@pytest.mark.parametrize("form", [None, "float", "base64"])
def test_vectors_match_the_model_itself(stack: Stack, client: openai.OpenAI, form: Any) -> None:
    """Without a format the client requests base64 and decodes it itself."""
    more = {"encoding_format": form} if form else {}
    answer = client.embeddings.create(model="nomic", input=TEXTS, **more)
    wanted = [directly(stack, text) for text in TEXTS]
    if form == "base64":
        assert all(isinstance(entry.embedding, str) for entry in answer.data)
    else:
        assert [entry.embedding for entry in answer.data] == wanted == [vector(text) for text in TEXTS]
    assert [entry.index for entry in answer.data] == [0, 1, 2, 3, 4]
    assert answer.usage.prompt_tokens == sum(len(text.split()) + 2 for text in TEXTS)  # the small model's own count


def test_models_are_listed_and_a_single_model_is_described(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert {"llama", "nomic", "nomic:query", "bge"} <= set(names)
    assert client.models.retrieve("nomic:query").id == "nomic:query"


@pytest.mark.parametrize(
    ("more", "kind", "param", "code"),
    [
        ({"model": "none"}, openai.NotFoundError, "model", "model_not_found"),
        ({"n": 0}, openai.BadRequestError, "n", "invalid_value"),
        ({"extra_body": {"tempreature": 1}}, openai.BadRequestError, "tempreature", "unknown_parameter"),
        ({"max_tokens": 10_000}, openai.BadRequestError, "messages", "context_length_exceeded"),
    ],
)
def test_a_refusal_is_the_clients_own_exception_with_its_param_and_code(
    stack: Stack, client: openai.OpenAI, more: Any, kind: type[openai.APIStatusError], param: str, code: str
) -> None:
    with pytest.raises(kind) as refusal:
        client.chat.completions.create(**{"model": "llama", "messages": HELLO, **more})
    assert (refusal.value.param, refusal.value.code) == (param, code)
    assert stack.triton.requests == []


def test_an_unknown_key_is_an_authentication_error(stack: Stack) -> None:
    wrong = openai.OpenAI(base_url=f"{stack.url}/v1", api_key="eh-unknown")
    with wrong, pytest.raises(openai.AuthenticationError) as refusal:
        wrong.models.list()
    assert refusal.value.code == "invalid_api_key"


FULL = Script(error=(grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size: 8"))


@pytest.mark.parametrize("streams", [False, True])
def test_the_client_retries_by_itself_while_the_model_is_full(stack: Stack, streams: bool) -> None:
    """The client waits for the time in `Retry-After`; then the model has room again."""
    statuses: list[int] = []

    def heard(response: Any) -> None:
        statuses.append(response.status_code)
        stack.triton.script = Script()

    stack.triton.script = FULL
    http = openai.DefaultHttpxClient(event_hooks={"response": [heard]})
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key=stack.key, http_client=http) as client:
        answer: Any = client.chat.completions.create(model="llama", messages=HELLO, stream=streams)
        chunks = list(answer) if streams else [answer]
    messages = [chunk.choices[0].delta if streams else chunk.choices[0].message for chunk in chunks]
    pieces = [message.content for message in messages]
    assert ("".join(piece or "" for piece in pieces), statuses) == (TEXT, [503, 200])


@pytest.mark.parametrize("streams", [False, True])
def test_a_client_does_not_retry_an_answer_that_used_tokens(stack: Stack, client: openai.OpenAI, streams: bool) -> None:
    stack.triton.script = Script(error=(grpc.StatusCode.INTERNAL, "x"), error_after=2)
    with pytest.raises(openai.APIError) as failure:
        answer: Any = client.chat.completions.create(model="llama", messages=HELLO, stream=streams)
        list(answer)
    assert (failure.value.code, len(stack.triton.requests)) == ("upstream_error", 1)


def test_a_client_that_closes_its_stream_stops_the_model(stack: Stack, client: openai.OpenAI) -> None:
    stack.triton.script = Script(halts_after=1)
    before = stack.triton.cancelled
    with client.chat.completions.create(model="llama", messages=HELLO, stream=True) as stream:
        assert next(piece for piece in stream if piece.choices[0].delta.content).choices[0].delta.content == "Hel"

    async def left() -> None:
        while stack.triton.running:
            await asyncio.sleep(0.01)

    stack.run(left())
    assert stack.triton.cancelled == before + 1


def test_azures_client_asks_a_deployment(stack: Stack) -> None:
    with openai.AzureOpenAI(azure_endpoint=stack.url, api_key=stack.key, api_version="2025-01-01") as client:
        answer = client.chat.completions.create(model="llama", messages=HELLO)
    assert answer.choices[0].message.content == TEXT
