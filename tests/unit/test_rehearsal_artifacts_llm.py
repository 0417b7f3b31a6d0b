"""The stand-in TensorRT-LLM: it refuses the same input as the real one, and always gives the same answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from rehearsal import checkpoints
from rehearsal.triton_image import STAND_INS

CLASS = "class PartReasoningText: ...\n"


def forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("tensorrt_llm", "openai")]:
        del sys.modules[name]


def repair(folder: Path) -> Path:
    """A stand-in for a newer `openai`."""
    responses = folder / "openai/types/responses"
    responses.mkdir(parents=True)
    (folder / "openai/__init__.py").write_text("")
    (responses / "response_content_part_added_event.py").write_text(CLASS)
    return folder


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.syspath_prepend(STAND_INS / "packages")
    forget()
    yield
    forget()


@pytest.fixture
def trt(packages: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(repair(tmp_path / "newer"))
    import tensorrt_llm

    monkeypatch.setattr(tensorrt_llm.llm, "SECONDS_PER_TOKEN", 0)
    return tensorrt_llm


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "gpt-oss-tiny"
    checkpoints.gpt_oss(folder, [])
    return folder


def test_it_does_not_import_with_the_openai_of_the_image(packages: None) -> None:
    with pytest.raises(ImportError, match=r"cannot import name 'PartReasoningText' from 'openai\.types\.responses"):
        import tensorrt_llm  # noqa: F401


def test_a_newer_openai_in_front_repairs_it(trt: ModuleType) -> None:
    assert trt.__version__ == "1.2.1"


def test_an_unknown_argument_is_refused_by_name_as_pydantic_would(trt: ModuleType, checkpoint: Path) -> None:
    with pytest.raises(ValueError) as refusal:
        trt.LLM(model=str(checkpoint), max_batchsize=8, kv_cache_config={"fraction": 0.5})
    assert str(refusal.value) == (
        "2 validation errors for TorchLlmArgs\n"
        "max_batchsize\n  Extra inputs are not permitted [type=extra_forbidden, input_value=8, input_type=int]\n"
        "kv_cache_config.fraction\n"
        "  Extra inputs are not permitted [type=extra_forbidden, input_value=0.5, input_type=float]"
    )


def test_a_cache_below_one_sequence_is_refused(trt: ModuleType, checkpoint: Path) -> None:
    with pytest.raises(RuntimeError, match=r"holds 100 tokens .* needs up to 4096"):
        trt.LLM(model=str(checkpoint), kv_cache_config={"max_tokens": 100})


def test_a_missing_shard_is_refused(trt: ModuleType, tmp_path: Path) -> None:
    checkpoints.gpt_oss(tmp_path / "half", [])
    (tmp_path / "half/model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FileNotFoundError):
        trt.LLM(model=str(tmp_path / "half"))


def test_a_shard_that_broke_off_is_refused(trt: ModuleType, tmp_path: Path) -> None:
    checkpoints.gpt_oss(tmp_path / "cut", [])
    shard = tmp_path / "cut/model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(OSError, match="its header describes"):
        trt.LLM(model=str(tmp_path / "cut"))


def test_the_answer_is_the_prompts_own_words_in_a_circle(trt: ModuleType, checkpoint: Path) -> None:
    prompt = "<|start|>user<|message|>One two<|end|><|start|>assistant"
    outputs = list(trt.LLM(model=str(checkpoint)).stream(prompt, max_tokens=3))
    assert [output.new_text for output in outputs[-1:]] == [" One"] and outputs[-1].text == " One two One"


def test_a_stop_word_ends_the_answer_before_it(trt: ModuleType, checkpoint: Path) -> None:
    *_, last = trt.LLM(model=str(checkpoint)).stream("one two three", max_tokens=9, stop=["two"])
    assert (last.text, last.finish_reason, last.stop_reason) == (" one ", "stop", "two")


def test_a_cancelled_answer_stops_and_says_so(trt: ModuleType, checkpoint: Path) -> None:
    *_, last = trt.LLM(model=str(checkpoint)).stream("one two", lambda: True, max_tokens=9)
    assert (last.text, last.finish_reason) == ("", "cancelled")


def test_a_prompt_that_leaves_no_room_is_refused(trt: ModuleType, checkpoint: Path) -> None:
    with pytest.raises(ValueError, match=r"should not exceed max_seq_len \(16\)"):
        list(trt.LLM(model=str(checkpoint), max_seq_len=16).stream("one two three", max_tokens=9))
