"""The engine path keeps the contract of the LLM slot, on every release with engines: `pytest -m rehearsal`."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc import InferenceServerException

from deploy.models import llm_contract
from tests.engine.engines import RELEASES, a_model, a_server, an_engine, write_engine, write_tokenizer
from tests.engine.server import Running, running
from tests.roles.health.test_watch_real import eventually
from tests.roles.triton.llm_client import EVERYTHING, events_of, text

pytestmark = pytest.mark.rehearsal
NAME = llm_contract.model_name("llama", "engine")
ASKED = {
    "text_input": "steam engine",
    "sampling_param_max_tokens": 5,
    "sampling_param_exclude_input_from_output": True,
    "streaming": True,
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="module", params=RELEASES)
def triton(
    request: pytest.FixtureRequest, weights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """Yields `llama`, streaming, behind the stand-in engine of one release."""
    work = tmp_path_factory.mktemp("engine")
    engine = write_engine(work / "engine", trtllm=request.param)
    with running(work, request.param) as server:
        model = a_model(an_engine(engine), weights, request.param)
        assert server.serve(a_server(model, trtllm=request.param)) == ""
        yield server


@pytest.fixture
def ask(triton: Running) -> Callable[..., list[dict[str, Any]]]:
    """Returns a function that sends a request and returns its events."""
    return lambda **inputs: events_of(triton.grpc, NAME, **inputs)


def values(events: list[dict[str, Any]], name: str) -> list[Any]:
    """Returns an output from each event that has it."""
    return [event[name] for event in events if name in event]


def test_a_stream_has_an_event_a_token_and_counts(ask: Callable[..., list[dict[str, Any]]]) -> None:
    events = ask(**ASKED, **EVERYTHING)
    assert [event["text_output"] for event in events] == [[b"s"], [b"t"], [b"e"], [b"a"], [b"m"]]
    assert [len(event["token_ids"]) for event in events] == [1] * 5
    assert values(events, "finish_reason") == [[b""]] * 4 + [[b"length"]]
    assert (values(events, "num_input_tokens"), values(events, "num_output_tokens")) == ([[12]], [[5]])


def test_ids_in_are_ids_out(ask: Callable[..., list[dict[str, Any]]]) -> None:
    """The stand-in repeats its prompt."""
    (event,) = ask(prompt_token_ids=[65, 66, 67], sampling_param_max_tokens=3, return_token_ids=True)
    assert event["token_ids"] == [65, 66, 67]


def test_the_prompt_comes_first_unless_it_is_excluded(ask: Callable[..., list[dict[str, Any]]]) -> None:
    events = ask(**ASKED | {"sampling_param_exclude_input_from_output": False})
    assert text(events) == "steam enginesteam"


@pytest.mark.parametrize("streaming", [True, False])
def test_a_stop_string_ends_the_text_before_it(ask: Callable[..., list[dict[str, Any]]], streaming: bool) -> None:
    wanted = ASKED | {"streaming": streaming, "sampling_param_max_tokens": 60}
    events = ask(**wanted, **EVERYTHING, sampling_param_stop=["m en", "never"])
    assert (text(events), values(events, "stop_reason")[-1]) == ("stea", [b"m en"])
    assert values(events, "finish_reason")[-1] == [b"stop"]


def test_a_stop_token_is_counted_and_not_sent(ask: Callable[..., list[dict[str, Any]]]) -> None:
    (event,) = ask(prompt_token_ids=[65, 66, 67], **EVERYTHING, sampling_param_stop_token_ids=[66])
    assert (event["token_ids"], event["num_output_tokens"], event["stop_reason"]) == ([65], [2], [b"66"])


def test_the_models_own_end_is_a_stop_without_a_reason(ask: Callable[..., list[dict[str, Any]]]) -> None:
    (event,) = ask(prompt_token_ids=[65, 66, 257], **EVERYTHING)
    assert (event["finish_reason"], event["stop_reason"]) == ([b"stop"], [b""])


def test_an_answer_goes_on_where_its_end_is_ignored(ask: Callable[..., list[dict[str, Any]]]) -> None:
    wanted = {"prompt_token_ids": [65, 257], "sampling_param_max_tokens": 4, "sampling_param_ignore_eos": True}
    (event,) = ask(**wanted, **EVERYTHING)
    assert (event["token_ids"], event["finish_reason"]) == ([65, 257, 65, 257], [b"length"])


def test_each_token_has_its_probability(ask: Callable[..., list[dict[str, Any]]]) -> None:
    events = ask(**ASKED, sampling_param_logprobs=0, return_cumulative_logprob=True)
    assert values(events, "token_logprobs") == [[-0.5]] * 5
    assert values(events, "cumulative_logprob") == [[-2.5]]


def test_several_sequences_are_distinguished(ask: Callable[..., list[dict[str, Any]]]) -> None:
    events = ask(**ASKED | {"sampling_param_n": 2, "sampling_param_seed": 3})
    texts_by_index = {n: text([event for event in events if event["sequence_index"] == [n]]) for n in (0, 1)}
    assert texts_by_index == {0: "am en", 1: "m eng"}


REFUSED = {
    "alternatives": ({"sampling_param_logprobs": 2}, "sampling_param_logprobs has to be 0"),
    "min_p": ({"sampling_param_min_p": 0.5}, "an engine of this release takes no min_p"),
    "a salt": ({"cache_salt": "x"}, "an engine of this release takes no cache_salt"),
    "an unknown adapter": ({"lora_name": "law"}, "is no adapter of this model; it has: none"),
    "a guide": ({"guided_decoding_guide_type": "json"}, "guided decoding is off for this model"),
    "too much": ({"sampling_param_max_tokens": 500}, "exceeds maximum input length"),
}


@pytest.mark.parametrize("wish", REFUSED)
def test_an_unsupported_request_is_refused(ask: Callable[..., list[dict[str, Any]]], wish: str) -> None:
    inputs, words = REFUSED[wish]
    with pytest.raises(InferenceServerException, match=words):
        ask(**ASKED | inputs)


def test_a_token_beyond_the_vocabulary_is_refused(ask: Callable[..., list[dict[str, Any]]]) -> None:
    with pytest.raises(InferenceServerException, match="the vocabulary ends at"):
        ask(prompt_token_ids=[100_000])


def test_a_client_that_leaves_ends_the_engines_work(triton: Running) -> None:
    """The engine's model gets two requests: one for the answer, and one that stops the answer."""
    before = asked_of_the_engine(triton)
    events = events_of(triton.grpc, NAME, leaves_after=1, **ASKED | {"sampling_param_max_tokens": 100})
    assert len(events) == 1
    assert eventually(lambda: asked_of_the_engine(triton) == before + 2)
    assert eventually(lambda: metric(triton, "enginehouse_llm_running_requests", NAME) == 0)


def test_three_clients_at_once_are_all_answered_whole(triton: Running) -> None:
    """Calls of a streaming model from several threads of the Python backend killed it after 261 to 640 requests, or
    left every request without an end.
    """

    def client(_number: int) -> list[str]:
        return [text(events_of(triton.grpc, NAME, **ASKED)) for _ in range(80)]

    with ThreadPoolExecutor(3) as clients:
        texts = [answer for answers in clients.map(client, range(3)) for answer in answers]
    assert texts == ["steam"] * 240


def asked_of_the_engine(triton: Running) -> float:
    """Returns the number of requests that the engine's model has completed."""
    return metric(triton, "nv_inference_request_success", "llama_tensorrt_llm")


def metric(triton: Running, name: str, model: str) -> float:
    """Returns a metric's value for one model."""
    with urllib.request.urlopen(f"http://{triton.metrics}/metrics", timeout=300) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{") and f'"{model}"' in line)
