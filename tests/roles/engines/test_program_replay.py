"""The program that answers prompts inside the container, with the LLM API's names in old and new releases."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from host import replay


class LLM:
    """Records its construction and its prompts."""

    made: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, **arguments: Any) -> None:
        LLM.made = arguments

    def generate(self, prompt: str, sampling: Any, use_tqdm: bool) -> SimpleNamespace:
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=(1, 2), text=f"{prompt}!")])

    def shutdown(self) -> None: ...


class EngineLLM(LLM): ...


def library(monkeypatch: pytest.MonkeyPatch, split: bool) -> None:
    """Installs TensorRT-LLM's names, `split` as from 1.0 on: another class for engines."""
    package, api, engines = (ModuleType(name) for name in ("tensorrt_llm", "llmapi", "_tensorrt_engine"))
    package.__dict__.update(LLM=LLM, SamplingParams=SimpleNamespace, __path__=[])
    api.__dict__.update(KvCacheConfig=dict)
    engines.__dict__.update(LLM=EngineLLM)
    monkeypatch.setitem(sys.modules, "tensorrt_llm", package)
    monkeypatch.setitem(sys.modules, "tensorrt_llm.llmapi", api)
    monkeypatch.setitem(sys.modules, "tensorrt_llm._tensorrt_engine", engines if split else None)


def answers(monkeypatch: pytest.MonkeyPatch, here: Path, *options: str) -> list[dict[str, Any]]:
    """The lines that the replay writes for two prompts."""
    (here / "p.jsonl").write_text('{"prompt": "a"}\n"b"\n')
    argv = ["replay.py", *options, "--tokenizer", str(here), "--prompts", str(here / "p.jsonl"), "--max-tokens", "3"]
    monkeypatch.setattr(sys, "argv", [*argv, "--output", str(here / "out.jsonl")])
    assert replay.main() == 0
    return [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]


def test_a_line_has_prompt_tokens_and_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library(monkeypatch, split=True)
    assert answers(monkeypatch, tmp_path, "--engine", "/e") == [
        {"kind": "prompt", "prompt": "a", "tokens": [1, 2], "text": "a!"},
        {"kind": "prompt", "prompt": "b", "tokens": [1, 2], "text": "b!"},
    ]


def test_tasks_follow_the_prompts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library(monkeypatch, split=True)
    (tmp_path / "t.jsonl").write_text('{"prompt": "c", "answer": "d"}\n')
    rows = answers(monkeypatch, tmp_path, "--engine", "/e", "--tasks", str(tmp_path / "t.jsonl"))
    assert [(row["kind"], row["prompt"]) for row in rows] == [("prompt", "a"), ("prompt", "b"), ("task", "c")]


@pytest.mark.parametrize(("split", "kind"), [(True, "EngineLLM"), (False, "LLM")])
def test_an_engine_has_the_class_of_its_release(
    split: bool, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library(monkeypatch, split)
    made = replay.engine(SimpleNamespace(engine="/e", tokenizer="/t", tensor=2, pipeline=1))
    assert (type(made).__name__, LLM.made["model"], LLM.made["tensor_parallel_size"]) == (kind, "/e", 2)


def test_a_checkpoint_goes_through_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, split=True)
    replay.checkpoint(SimpleNamespace(checkpoint="/c", tensor=1, pipeline=2))
    assert (LLM.made["backend"], LLM.made["pipeline_parallel_size"]) == ("pytorch", 2)


def test_no_cached_block_is_reused_from_an_earlier_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, split=True)
    replay.checkpoint(SimpleNamespace(checkpoint="/c", tensor=1, pipeline=1))
    assert LLM.made["kv_cache_config"]["enable_block_reuse"] is False


def test_sampling_is_greedy_with_the_checkpoints_own_end_tokens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library(monkeypatch, split=True)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [9, 8]}')
    sampling = replay.greedy(SimpleNamespace(max_tokens=5, tokenizer=tmp_path))
    assert vars(sampling) == {"max_tokens": 5, "top_k": 1, "seed": 0, "end_id": 9, "pad_id": 9, "stop_token_ids": [8]}


def test_a_checkpoint_without_end_tokens_leaves_them_to_the_tokenizer(tmp_path: Path) -> None:
    assert replay.end_tokens(tmp_path) == []
