"""An engine's models behind the real Triton 2.51, called like clients do: `pytest -m rehearsal`."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http

from tests.engine.engines import a_draft, a_model, a_server, an_engine, write_engine, write_tokenizer
from tests.engine.server import Running, running
from tests.roles.triton.llm_client import WAIT_SECONDS

pytestmark = pytest.mark.rehearsal

PROMPT = "steam engine"
TYPES = {np.dtype("int32"): "INT32", np.dtype("bool"): "BOOL", np.dtype("object"): "BYTES"}


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yields `llama` (streaming, two beams, logits), `plain` (none of these) and `quick` (a draft model)."""
    work = tmp_path_factory.mktemp("engine")
    weights = work / "weights"
    write_tokenizer(weights)
    rich = write_engine(work / "rich", gather_context_logits=True, gather_generation_logits=True)
    bare, drafting = write_engine(work / "bare", max_beam_width=1), write_engine(work / "draft")
    target = write_engine(work / "target", speculative_decoding_mode="draft_tokens_external")
    logits = a_model(an_engine(rich), weights)
    logits.settings["logits"] = {"context": True, "generation": True}
    models = (
        logits,
        a_model(an_engine(bare, max_beam_width="1"), weights, name="plain", decoupled=False),
        a_model(an_engine(target), weights, draft=an_engine(drafting, "draft"), name="quick", speculative=a_draft()),
    )
    with running(work, "1.2.1") as server:
        assert server.serve(a_server(*models)) == ""
        yield server


@pytest.fixture
def grpc(triton: Running) -> Iterator[over_grpc.InferenceServerClient]:
    """Yields a gRPC client."""
    with over_grpc.InferenceServerClient(triton.grpc) as client:
        yield client


def tensors(**values: Any) -> list[over_grpc.InferInput]:
    """Returns gRPC inputs."""
    inputs = []
    for name, value in values.items():
        array = np.array(value, object) if isinstance(value[0][0], str) else np.array(value)
        array = array.astype(np.int32) if array.dtype == np.int64 else array
        inputs.append(over_grpc.InferInput(name, array.shape, TYPES[array.dtype]).set_data_from_numpy(array))
    return inputs


class Stream:
    """The results of a gRPC stream."""

    def __init__(self, client: over_grpc.InferenceServerClient, model: str, identity: str = "", **inputs: Any) -> None:
        self.client, self.came = client, queue.Queue()
        client.start_stream(partial(self.put), stream_timeout=WAIT_SECONDS)
        client.async_stream_infer(model, tensors(**inputs), request_id=identity, enable_empty_final_response=True)

    def put(self, result: Any, error: Any) -> None:
        self.came.put(error or result)

    def results(self) -> list[Any]:
        """Returns all results up to the end of the request."""
        received = []
        while True:
            result = self.came.get(timeout=300)
            if isinstance(result, Exception):
                return [*received, result]
            if result.get_output("text_output") or result.get_output("output_ids"):
                received.append(result)
            if result.get_response().parameters["triton_final_response"].bool_param:
                self.client.stop_stream()
                return received


def text(result: Any) -> str:
    return result.as_numpy("text_output")[0].decode()


def test_each_model_is_loaded_once_and_in_the_written_order(triton: Running) -> None:
    lines = triton.log.read_text().splitlines()
    loaded = [line.split("successfully loaded '")[1].rstrip("'\"") for line in lines if "successfully loaded" in line]
    assert [name for name in loaded if name.startswith("quick")] == [
        "quick_preprocessing", "quick_postprocessing", "quick_tensorrt_llm_draft", "quick_tensorrt_llm", "quick",
        "quick_tensorrt_llm_bls", "quick_completion",
    ]  # fmt: skip


def test_generate_stream_gives_an_event_a_token(triton: Running) -> None:
    events = triton.stream("llama", text_input=PROMPT, max_tokens=5)
    assert [event["text_output"] for event in events] == ["s", "t", "e", "a", "m"]


def test_generate_gives_the_answer_without_its_prompt(triton: Running) -> None:
    status, text = triton.ask("/v2/models/plain/generate", {"text_input": PROMPT, "max_tokens": 5})
    assert (status, '"text_output":"steam"' in text) == (200, True)


def test_a_request_may_have_its_prompt_back(triton: Running) -> None:
    question = {"text_input": PROMPT, "max_tokens": 5, "exclude_input_in_output": False}
    assert '"text_output":"steam enginesteam"' in triton.ask("/v2/models/plain/generate", question)[1]


def test_grpc_streams_and_says_when_it_is_over(grpc: over_grpc.InferenceServerClient) -> None:
    came = Stream(grpc, "llama", text_input=[[PROMPT]], max_tokens=[[4]], stream=[[True]]).results()
    assert [text(result) for result in came] == ["s", "t", "e", "a"]


def test_several_prompts_of_one_request_are_distinguished(grpc: over_grpc.InferenceServerClient) -> None:
    came = Stream(grpc, "llama", text_input=[["boiler"], ["a sea"]], max_tokens=[[3], [2]]).results()
    assert {int(result.as_numpy("batch_index")[0, 0]): text(result) for result in came} == {0: "boi", 1: "a "}


def test_a_stop_word_ends_the_answer(triton: Running) -> None:
    events = triton.stream("llama", text_input=PROMPT, max_tokens=50, stop_words=["am", "never"])
    assert "".join(event["text_output"] for event in events) == "steam"


def test_a_bad_word_is_never_generated(triton: Running) -> None:
    question = {"text_input": PROMPT, "max_tokens": 50, "bad_words": ["ea"]}
    text = triton.ask("/v2/models/plain/generate", question)[1]
    assert ("ste" in text, "ea" in text.split("text_output")[1]) == (True, False)


def test_a_cancelled_stream_stops_the_engine(triton: Running, grpc: over_grpc.InferenceServerClient) -> None:
    stream = Stream(grpc, "llama", text_input=[["boiler"]], max_tokens=[[110]], stream=[[True]])
    stream.came.get(timeout=300)
    grpc.stop_stream(cancel_requests=True)
    left = [result for result in iter(partial(_next, stream.came), None) if not isinstance(result, Exception)]
    assert len(left) < 109


def _next(came: queue.Queue[Any]) -> Any:
    try:
        return came.get(timeout=1)
    except queue.Empty:
        return None


def test_a_request_is_stopped_by_its_id(triton: Running, grpc: over_grpc.InferenceServerClient) -> None:
    ids = {"input_ids": [[104, 101]], "input_lengths": [[2]]}
    stream = Stream(grpc, "llama_tensorrt_llm", "one", **ids, request_output_len=[[110]], streaming=[[True]])
    stream.came.get(timeout=300)
    with over_grpc.InferenceServerClient(triton.grpc) as other_client:
        done = threading.Event()
        other_client.start_stream(lambda result, error: done.set(), stream_timeout=WAIT_SECONDS)
        other_client.async_stream_infer(
            "llama_tensorrt_llm", tensors(**ids, request_output_len=[[1]], stop=[[True]]), request_id="one",
            enable_empty_final_response=True,
        )  # fmt: skip
        assert done.wait(300)
        other_client.stop_stream()
    assert len(stream.results()) < 109


def test_token_ids_go_in_and_come_out(triton: Running) -> None:
    with over_http.InferenceServerClient(triton.http) as client:
        inputs = []
        for name, value in {"input_ids": [7, 8, 9], "input_lengths": [3], "request_output_len": [4]}.items():
            tensor = over_http.InferInput(name, (1, len(value)), "INT32")
            inputs.append(tensor.set_data_from_numpy(np.array([value], np.int32)))
        answer = client.infer("plain_tensorrt_llm", inputs)
    assert (answer.as_numpy("output_ids").tolist(), answer.as_numpy("sequence_length").tolist()) == (
        [[[7, 8, 9, 7]]],
        [[4]],
    )


def test_context_logits_cover_the_prompt_and_generation_logits_the_answer(
    grpc: over_grpc.InferenceServerClient,
) -> None:
    wanted = {"return_context_logits": [[True]], "return_generation_logits": [[True]]}
    (came,) = Stream(grpc, "llama", text_input=[["boil"]], max_tokens=[[3]], **wanted).results()
    shapes = came.as_numpy("context_logits").shape, came.as_numpy("generation_logits").shape
    assert shapes == ((1, 4, 300), (1, 1, 3, 300))


def test_a_model_without_engine_logits_offers_no_logprobs(triton: Running) -> None:
    with over_http.InferenceServerClient(triton.http) as client:
        metadata = client.get_model_metadata("plain")
    offered = {tensor["name"] for tensor in metadata["inputs"] + metadata["outputs"]}
    assert {name for name in offered if "logits" in name} == set()


def test_logits_asked_of_an_engine_without_them_are_refused(triton: Running) -> None:
    body = {
        "inputs": [
            {"name": name, "shape": [1, 1], "datatype": kind, "data": [value]}
            for name, kind, value in (
                ("input_ids", "INT32", 7), ("input_lengths", "INT32", 1), ("request_output_len", "INT32", 1),
                ("return_generation_logits", "BOOL", True),
            )
        ]
    }  # fmt: skip
    status, message = triton.ask("/v2/models/plain_tensorrt_llm/infer", body)
    assert status >= 400 and "not built with gather_generation_logits" in message


def test_two_beams_give_two_texts(grpc: over_grpc.InferenceServerClient) -> None:
    (came,) = Stream(grpc, "llama", text_input=[["boil"]], max_tokens=[[3]], beam_width=[[2]]).results()
    assert [text.decode() for text in came.as_numpy("text_output")] == ["boi", "oil"]


def test_more_beams_than_the_engine_has_are_refused(triton: Running) -> None:
    (event,) = triton.stream("llama", text_input=PROMPT, max_tokens=5, beam_width=3)
    assert "Requested beam width 3 is larger than max_beam_width 2" in event["error"]


def test_an_overlong_prompt_is_refused_and_the_next_one_answered(triton: Running) -> None:
    (event,) = triton.stream("llama", text_input="x" * 121, max_tokens=5)
    assert "Prompt length (121) exceeds maximum input length (120)" in event["error"]
    assert len(triton.stream("llama", text_input=PROMPT, max_tokens=2)) == 2


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({"text_input": PROMPT}, "max_tokens"),
        ({"text_input": PROMPT, "max_tokens": "five"}, "non-signed-integer"),
        ({"text_input": PROMPT, "max_tokens": 0}, "maxNewTokens (0) must be > 0"),
    ],
)
def test_a_bad_request_gets_the_reason(triton: Running, question: dict[str, Any], expected: str) -> None:
    status, message = triton.ask("/v2/models/plain/generate", question)
    assert status >= 400 and expected in message


def test_a_model_that_does_not_stream_refuses_a_stream(triton: Running) -> None:
    (event,) = triton.stream("plain", text_input=PROMPT, max_tokens=5)
    assert "Streaming is only supported if model is deployed using decoupled mode." in event["error"]


def test_the_bls_model_returns_the_accumulated_text(triton: Running) -> None:
    events = triton.stream("llama_tensorrt_llm_bls", text_input=PROMPT, max_tokens=3)
    assert [event["text_output"] for event in events] == ["s", "st", "ste"]


def test_the_bls_model_speculates_with_the_draft(triton: Running) -> None:
    question = {"text_input": PROMPT, "max_tokens": 5, "num_draft_tokens": 3, "stream": False}
    (event,) = triton.stream("quick_tensorrt_llm_bls", **question)
    assert event["text_output"] == "steam"


def test_a_bls_model_without_a_draft_offers_no_speculation(triton: Running) -> None:
    with over_http.InferenceServerClient(triton.http) as client:
        offered = {tensor["name"] for tensor in client.get_model_metadata("plain_tensorrt_llm_bls")["inputs"]}
    assert offered & {"num_draft_tokens", "use_draft_logits"} == set()


def test_a_bls_model_that_does_not_stream_answers_at_once(triton: Running) -> None:
    question = {"text_input": PROMPT, "max_tokens": 5}
    status, answer = triton.ask("/v2/models/plain_tensorrt_llm_bls/generate", question)
    assert (status, '"text_output":"steam"' in answer) == (200, True)


def test_the_log_says_that_it_is_a_stand_in(triton: Running) -> None:
    assert "rehearsal stand-in: no TensorRT-LLM here" in Path(triton.log).read_text()
