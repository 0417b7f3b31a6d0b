"""The slot behind the real Triton 2.51, over the rehearsal's stand-in of the image; and that stand-in without the slot.

The stand-in keeps upstream's contract to the position of every parameter, so upstream's defects show without our slot.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as grpc
from tokenizers import Tokenizer

from deploy.models import llm_contract
from deploy.slices.host import ServerSlice
from rehearsal import checkpoints
from rehearsal.triton_image import STAND_INS
from roles.triton.defaults import Defaults
from roles.triton.render import render
from tests.encoders import real_triton
from tests.roles.triton.llm_client import EVERYTHING, events_of, text
from tests.unit.samples import main, plan

pytestmark = pytest.mark.rehearsal
NAME = "llama"
ASKED = {
    "text_input": "one two",
    "sampling_param_max_tokens": 9,
    "sampling_param_exclude_input_from_output": True,
    "streaming": True,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint and the image's parts in one place."""
    work = tmp_path_factory.mktemp("llm")
    checkpoints.gpt_oss(work / "weights", [])
    image = work / "image"
    shutil.copytree(STAND_INS / "all_models" / "tensorrt_llm" / "1", image)
    for package in ("tensorrt_llm", "openai"):
        shutil.copytree(STAND_INS / "packages" / package, image / package)
    (image / "openai/types/responses/response_content_part_added_event.py").write_text("class PartReasoningText: ...\n")
    return work


def planned(folder: Path) -> ServerSlice:
    """The plan's server with its LLM alone, on this checkpoint."""
    server = plan(**main()).slices[0].servers[0]
    (model,) = [model for model in server.models if model.kind == "llm"]
    kept = ("backend", "max_batch_size", "triton_config")
    settings = {name: model.settings[name] for name in kept} | {
        "model": str(folder / "weights"),
        "max_seq_len": 256,
        "guided_decoding_backend": "xgrammar",
    }
    return replace(server, models=(replace(model, name=NAME, settings=settings),))


@pytest.fixture(scope="module")
def extended(folder: Path) -> Iterator[real_triton.Server]:
    """A rendered release: the slot over the stand-in."""
    work = folder / "extended"
    for path, content in render(planned(folder), Defaults()).items():
        if path.startswith("models/"):
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_LLMAPI", str(folder / "image"))
        with real_triton.serving(work / "models", work) as triton:
            yield triton


@pytest.fixture(scope="module")
def unextended(folder: Path) -> Iterator[real_triton.Server]:
    """The image's own model, served as upstream documents."""
    work = folder / "unextended"
    model = work / "models" / NAME
    shutil.copytree(STAND_INS / "all_models" / "tensorrt_llm", model)
    config = (model / "config.pbtxt").read_text()
    (model / "config.pbtxt").write_text(config.replace('"tensorrt_llm"', f'"{NAME}"').replace("False", "True"))
    (model / "1/model.yaml").write_text(
        f"model: {folder / 'weights'}\ntriton_config: {{max_batch_size: 0, decoupled: true}}\n"
    )
    code = (model / "1/model.py").read_text()
    before = f"import sys\n\nsys.path.insert(0, {str(folder / 'image')!r})\n"
    (model / "1/model.py").write_text(code.replace("import asyncio\n", f"{before}import asyncio\n", 1))
    with real_triton.serving(work / "models", work) as triton:
        yield triton


def stream(triton: real_triton.Server, **inputs: Any) -> list[dict[str, Any]]:
    """The events of one request."""
    return events_of(triton.grpc, NAME, **inputs)


def test_the_image_alone_sends_a_stream_in_one_piece(unextended: real_triton.Server) -> None:
    """Negative control: `streaming` is passed in the position of `lora_request`."""
    (event,) = stream(unextended, **ASKED)
    assert event["text_output"] == [b" one two "]


def test_the_llm_slot_sends_one_event_per_token_with_new_text(extended: real_triton.Server) -> None:
    events = stream(extended, **ASKED)
    assert len(events) == 9
    assert text(events) == " one two "


def test_every_output_of_the_contract_comes_as_it_is_written(extended: real_triton.Server, folder: Path) -> None:
    events = stream(extended, **ASKED, **EVERYTHING, sampling_param_logprobs=2)
    assert {name for event in events for name in event} == {field.name for field in llm_contract.OUTPUTS}
    ids = [token for event in events for token in event["token_ids"]]
    assert Tokenizer.from_file(str(folder / "weights/tokenizer.json")).decode(ids) == " one two "
    last = events[-1]
    counts = [last[f"num_{name}_tokens"] for name in ("input", "output", "cached")]
    assert (counts, last["finish_reason"]) == ([[7], [9], [0]], [b"length"])
    assert [len(event["token_logprobs"]) for event in events] == [1] * 9
    assert events[0]["top_logprobs"] == [[-0.5, -1.5]]


def test_a_whole_answer_has_the_same_ids(extended: real_triton.Server) -> None:
    (event,) = stream(extended, **ASKED | {"streaming": False}, **EVERYTHING)
    streamed = stream(extended, **ASKED, **EVERYTHING)
    assert event["token_ids"] == [token for event in streamed for token in event["token_ids"]]


def test_ids_for_a_prompt_get_the_answer_that_their_text_gets(extended: real_triton.Server, folder: Path) -> None:
    ids = Tokenizer.from_file(str(folder / "weights/tokenizer.json")).encode("one two").ids
    inputs = {name: value for name, value in ASKED.items() if name != "text_input"}
    assert text(stream(extended, **inputs, prompt_token_ids=ids)) == " one two "


def test_a_stop_string_across_tokens_is_in_no_event(extended: real_triton.Server) -> None:
    events = stream(extended, **ASKED | {"sampling_param_max_tokens": 100}, **EVERYTHING, sampling_param_stop=["e tw"])
    assert (text(events), events[-1]["stop_reason"]) == (" on", [b"e tw"])


def test_an_empty_last_event_of_a_stop_token_arrives(extended: real_triton.Server) -> None:
    """The event's lists are empty."""
    events = stream(
        extended, **ASKED, **EVERYTHING, sampling_param_stop_token_ids=[ord(" ")], sampling_param_logprobs=0
    )
    assert events[-1]["finish_reason"] in ([b"stop"], [b"length"])


def test_a_schema_is_kept(extended: real_triton.Server) -> None:
    schema = '{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}'
    guide = {"guided_decoding_guide_type": "json_schema", "guided_decoding_guide": schema}
    events = stream(extended, **ASKED | {"sampling_param_max_tokens": 50}, **EVERYTHING, **guide)
    assert (text(events), events[-1]["finish_reason"]) == ('{"a": 0}', [b"stop"])


def test_several_sequences_are_distinguished(extended: real_triton.Server) -> None:
    wanted = ASKED | {"sampling_param_n": 2, "sampling_param_temperature": 1.0, "sampling_param_max_tokens": 4}
    events = stream(extended, **wanted)
    texts_by_index = {n: text([event for event in events if event["sequence_index"] == [n]]) for n in (0, 1)}
    assert texts_by_index == {0: " one", 1: " two"}


def test_no_client_can_stop_the_request_of_another(extended: real_triton.Server) -> None:
    with pytest.raises(grpc.InferenceServerException, match="unexpected inference input 'stop'"):
        stream(extended, text_input="", stop=True)


def test_a_bad_request_is_refused_with_its_code(extended: real_triton.Server) -> None:
    with pytest.raises(grpc.InferenceServerException) as refusal:
        stream(extended, **ASKED | {"sampling_param_max_tokens": 300})
    assert "should not exceed max_seq_len (256)" in str(refusal.value)
