"""Answers of the LLM slot: the contract of deploy/models/llm_contract.py, kept over an engine of that form."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.encoders.fake_triton import TritonError, TritonModelException
from tests.roles.triton.llm_image import MODEL
from tests.roles.triton.llm_slot import Request, ask, image, load, model, refusal, slot, texts

__all__ = ["image", "model", "slot"]  # fixtures
THREE = {"text_input": "hi", "sampling_param_exclude_input_from_output": True, "sampling_param_max_tokens": 3}
EVERYTHING = {f"return_{name}": True for name in ("token_ids", "counts", "finish_reason", "stop_reason")}


def values(events: list[Any], name: str) -> list[Any]:
    """An output's values in each event that has it."""
    return [tensor.array.tolist() for event in events for tensor in event.output_tensors if tensor.label == name]


def test_a_stream_has_one_event_per_token_with_the_new_text(model: Any) -> None:
    events = ask(model, **THREE, **EVERYTHING, streaming=True)
    assert texts(events) == [" w0", " w1", " w2"]
    assert values(events, "token_ids") == [[100], [101], [102]]
    assert values(events, "finish_reason") == [[b""], [b""], [b"length"]]


def test_counts_come_once_with_the_last_event(model: Any) -> None:
    events = ask(model, **THREE, **EVERYTHING, streaming=True)
    counts = [values(events, f"num_{name}_tokens") for name in ("input", "output", "cached")]
    assert counts == [[[2]], [[3]], [[3]]]


def test_a_whole_answer_is_one_event(model: Any) -> None:
    (event,) = ask(model, **THREE, **EVERYTHING)
    assert (texts([event]), event["token_ids"].tolist()) == ([" w0 w1 w2"], [100, 101, 102])


def test_only_requested_outputs_are_sent(model: Any) -> None:
    (event,) = ask(model, **THREE)
    assert [tensor.label for tensor in event.output_tensors] == ["text_output", "sequence_index"]


def test_the_prompt_comes_first_unless_it_is_excluded(model: Any) -> None:
    assert texts(ask(model, text_input="hi", sampling_param_max_tokens=2, streaming=True)) == ["hi w0", " w1"]


def test_the_engine_is_asked_to_stream_by_name(model: Any) -> None:
    ask(model, **THREE, streaming=True)
    ((prompt, _, adapter, streaming),) = model._llm_engine.asked
    assert (prompt, adapter, streaming) == ("hi", None, True)


def test_ids_reach_the_engine_as_they_are(model: Any) -> None:
    events = ask(model, prompt_token_ids=[5, 6, 7], sampling_param_max_tokens=1, return_counts=True)
    assert model._llm_engine.asked[0][0] == [5, 6, 7]
    assert (texts(events), values(events, "num_input_tokens")) == ([" w0"], [[3]])


@pytest.mark.parametrize("streaming", [True, False])
def test_a_stop_string_ends_the_text_before_it_and_the_engines_work(model: Any, streaming: bool) -> None:
    events = ask(
        model,
        text_input="",
        sampling_param_max_tokens=50,
        sampling_param_stop=["2 w3"],
        streaming=streaming,
        **EVERYTHING,
    )
    assert "".join(texts(events)) == " w0 w1 w"
    assert (values(events, "finish_reason")[-1], values(events, "stop_reason")[-1]) == ([b"stop"], [b"2 w3"])
    assert values(events, "num_output_tokens") == [[4]]


def test_a_stop_token_is_counted_and_not_sent(model: Any) -> None:
    events = ask(model, **THREE, **EVERYTHING, sampling_param_stop_token_ids=[101])
    assert (values(events, "token_ids"), values(events, "num_output_tokens")) == ([[100]], [[2]])
    assert (values(events, "finish_reason"), values(events, "stop_reason")) == ([[b"stop"]], [[b"101"]])


def test_each_of_several_sequences_ends_with_its_own_reason(model: Any) -> None:
    wanted = {**THREE, "sampling_param_max_tokens": 2, "sampling_param_n": 2, "sampling_param_temperature": 0.5}
    events = ask(model, **wanted, **EVERYTHING, streaming=True)
    assert values(events, "sequence_index") == [[0], [1], [0], [1]]
    assert values(events, "finish_reason") == [[b""], [b""], [b"length"], [b"length"]]


def test_probabilities_are_of_the_tokens_beside_them(model: Any) -> None:
    (event,) = ask(model, **THREE, sampling_param_logprobs=2, return_token_ids=True)
    assert event["token_logprobs"].tolist() == [-0.5, -0.5, -0.5]
    assert event["top_logprob_ids"].tolist() == [[100, 7], [101, 7], [102, 7]]
    assert event["top_logprobs"].tolist() == [[-0.5, -1.5]] * 3


def test_only_a_temperature_makes_the_model_sample(model: Any) -> None:
    for temperature in (0.7, 0.0):
        ask(model, **THREE, sampling_param_temperature=temperature, sampling_param_seed=3)
    warm, cold = (params for _, params, _, _ in model._llm_engine.asked)
    assert (warm.top_p, warm.seed) == (1.0, 3)
    assert (cold.temperature, cold.top_p, cold.top_k) == (None, None, None)


MISTAKES = {
    "neither prompt": ({}, "a request has either text_input or prompt_token_ids"),
    "both prompts": (
        {"text_input": "a", "prompt_token_ids": [1]},
        "a request has either text_input or prompt_token_ids",
    ),
    "two prompts": ({"text_input": ["a", "b"]}, "one prompt per request, 2 were given"),
    "no ids": ({"prompt_token_ids": []}, "prompt_token_ids is empty"),
    "no token": ({"prompt_token_ids": [-4]}, "prompt_token_ids has -4, which is no token"),
    "no length": ({"text_input": "a", "sampling_param_max_tokens": 0}, "require max_tokens >= 1, got max_tokens=0"),
    "too long for the engine": ({"text_input": "too long"}, "prompt length (9) exceeds max_seq_len (8)"),
    "no guide": (
        {"text_input": "a", "guided_decoding_guide_type": "regex"},
        "guided_decoding_guide_type 'regex' wants a guided_decoding_guide",
    ),
    "an adapter it has not": (
        {"text_input": "a", "lora_name": "law"},
        "lora_name 'law' is no adapter of this model; it has: none",
    ),
    "an unknown input": ({"text_input": "a", "stop": True}, "stop: no input of this model"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_invalid_request_is_refused_as_invalid(model: Any, mistake: str) -> None:
    inputs, words = MISTAKES[mistake]
    assert refusal(ask(model, **inputs)) == (words, TritonError.INVALID_ARG)


UNSUPPORTED = {
    "guided decoding that is off": (
        {"guided_decoding_guide_type": "json"},
        "guided decoding is off for this model; the inventory turns it on: guided_decoding=True",
    ),
    "a salt": ({"cache_salt": "mine"}, "TensorRT-LLM's generate_async of this release has no cache_salt"),
    "what the sampler ignores": (
        {"sampling_param_frequency_penalty": 0.5, "sampling_param_min_p": 0.1, "sampling_param_presence_penalty": 0.0},
        "the sampler of TensorRT-LLM 1.2.1 ignores frequency_penalty, min_p",
    ),
    "a sampling field": (
        {"sampling_param_no_such": 1},
        "TensorRT-LLM's SamplingParams of this release has no no_such",
    ),
}


@pytest.mark.parametrize("wish", UNSUPPORTED)
def test_a_field_that_this_release_lacks_is_refused_by_name(model: Any, wish: str) -> None:
    inputs, words = UNSUPPORTED[wish]
    assert refusal(ask(model, text_input="a", **inputs)) == (words, TritonError.UNSUPPORTED)


def test_a_penalty_is_handed_on_where_the_sampler_knows_it(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_version", "1.3.0")
    ask(model, **THREE, sampling_param_repetition_penalty=1.5)
    assert model._llm_engine.asked[0][1].repetition_penalty == 1.5


def test_an_engine_failure_is_not_blamed_on_the_request(model: Any) -> None:
    assert refusal(ask(model, text_input="breaks")) == ("a CUDA error", TritonError.INTERNAL)


def test_a_client_that_leaves_ends_the_engines_work(model: Any) -> None:
    request = Request(text_input="hold")
    model.execute([request])
    request.cancel()
    assert refusal(request.sender.events())[1] == TritonError.CANCELLED
    assert model._ongoing_request_count == 0


def test_guides_reach_the_engine_under_its_own_names(slot: ModuleType, image: Path) -> None:
    model = load(slot, guided_decoding="true")
    for kind, guide in (("json", ""), ("json_schema", "{}"), ("regex", "a+"), ("ebnf_grammar", "root ::= x")):
        ask(model, **THREE, guided_decoding_guide_type=kind, **({"guided_decoding_guide": guide} if guide else {}))
    guides = [params.guided_decoding for _, params, _, _ in model._llm_engine.asked]
    assert [(guide.json_object, guide.json, guide.regex, guide.grammar) for guide in guides] == [
        (True, None, None, None),
        (False, "{}", None, None),
        (False, None, "a+", None),
        (False, None, None, "root ::= x"),
    ]
    model.finalize()


def test_an_adapter_is_named_by_its_name(slot: ModuleType, image: Path) -> None:
    model = load(slot, adapters=json.dumps({"law": "/srv/law", "code": "/srv/code"}))
    ask(model, **THREE, lora_name="code")
    assert tuple(model._llm_engine.asked[0][2]) == ("code", 2, "/srv/code")
    model.finalize()


def test_a_model_that_does_not_stream_says_so(slot: ModuleType, image: Path) -> None:
    model = load(slot, decoupled=False)
    words, code = refusal(ask(model, **THREE, streaming=True))
    assert (words, code) == (
        "Streaming is only supported in decoupled mode, and more than one sequence as well.",
        TritonError.INVALID_ARG,
    )
    assert texts(ask(model, **THREE)) == [" w0 w1 w2"]
    model.finalize()


def test_an_image_of_another_form_does_not_load(slot: ModuleType, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot, "NEEDED", ("_llm_engine", "_something_new"))
    with pytest.raises(TritonModelException, match="the image's llmapi model has no _something_new"):
        load(slot)


def test_a_release_with_a_repaired_own_model_gives_equal_answers(image: Path, request: pytest.FixtureRequest) -> None:
    """The slot does not depend on the positions of `generate_async`'s parameters or on the image's use of these."""
    cured = MODEL.replace("lora_request=None, prompt_adapter_request=None, streaming=False", "*, streaming=False")
    assert cured != MODEL
    (image / "model.py").write_text(cured.replace("lora_request, streaming))", "None, streaming))"))
    model = load(request.getfixturevalue("slot"))
    assert texts(ask(model, **THREE, streaming=True)) == [" w0", " w1", " w2"]
    model.finalize()
