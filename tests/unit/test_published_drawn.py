"""Thirty more repositories of 2026, resolved through a hub: each is planned, or refused for the one right reason.

Numbers of 24 LLMs are those of their config.json as a public collection of August 2026 keeps them
(ai-dynamo/aiconfigurator, model_configs); sizes are nominal, by the names. Of the encoders the class string is
published, which decides. None of these names was in a test before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from deploy.io.hub import resolve
from deploy.planning.fit import FitOptions, fit_of
from deploy.refusals.errors import Refusal, Refusals
from deploy.spec import LLM, Embedder, Model, Parallel, Reranker
from tests.unit.hubs import Standing, repository, standing, weights
from tests.unit.samples import AROUND

CONFIGS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("published_drawn.json").read_text(encoding="utf-8")
)
ENCODERS: dict[str, dict[str, Any]] = {
    "Alibaba-NLP/gte-multilingual-reranker-base": {
        "architectures": ["NewForSequenceClassification"],
        "auto_map": {"AutoModel": "x"},
        "vocab_size": 250_002,
        "hidden_size": 768,
        "num_hidden_layers": 12,
    },
    "jinaai/jina-embeddings-v4": {
        "architectures": ["JinaEmbeddingsV4Model"],
        "auto_map": {"AutoModel": "x"},
        "hidden_size": 2048,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
        "max_position_embeddings": 128_000,
        "intermediate_size": 11_008,
    },
    "mixedbread-ai/mxbai-rerank-base-v1": {
        "architectures": ["DebertaV2ForSequenceClassification"],
        "id2label": {"0": "LABEL_0"},
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "vocab_size": 128_100,
    },
}
FILES: dict[str, dict[str, bytes]] = {
    "unsloth/gpt-oss-20b-GGUF": {"gpt-oss-20b-Q4_K_M.gguf": b"GGUF", "config.json": b"{}"},
    "bartowski/Qwen_Qwen3-32B-GGUF": {"Qwen_Qwen3-32B-Q4_K_M.gguf": b"GGUF"},
    "predibase/sql-adapter": {"adapter_config.json": b"{}", "adapter_model.safetensors": weights(a=("BF16", [1, 9]))},
}


class Verdict(NamedTuple):
    """The declared class, the kind of the only refusal ("" if the model is planned), the card, and GPUs."""

    declared: type[Model]
    kind: str
    card: str = "h200-141"
    gpus: int = 8


PLANNED, OTHER_CACHE, SEES = (Verdict(LLM, kind) for kind in ("", "unknown-cache", "multi-modal"))
VERDICTS = {
    "Alibaba-NLP/gte-multilingual-reranker-base": Verdict(Reranker, "unknown-architecture", gpus=1),
    "bartowski/Qwen_Qwen3-32B-GGUF": Verdict(LLM, "no-checkpoint"),
    "deepseek-ai/DeepSeek-V4-Flash": OTHER_CACHE,
    "google/gemma-4-26B-A4B": SEES,
    "jinaai/jina-embeddings-v4": Verdict(Embedder, "unknown-architecture", gpus=1),
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": SEES,
    "meta-llama/Meta-Llama-3.1-405B": PLANNED,
    "MiniMaxAI/MiniMax-M2.5": Verdict(LLM, "no-pytorch", gpus=4),
    "MiniMaxAI/MiniMax-M3": OTHER_CACHE,
    "mistralai/Mixtral-8x22B-v0.1": PLANNED,
    "mixedbread-ai/mxbai-rerank-base-v1": Verdict(Reranker, "", gpus=1),
    "moonshotai/Kimi-K2.5": SEES,
    "moonshotai/Kimi-K3": SEES,
    "nvidia/DeepSeek-V3.1-NVFP4": Verdict(LLM, "", "b200-180"),
    "nvidia/GLM-5.1-NVFP4": Verdict(LLM, "unknown-cache", "b200-180"),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": OTHER_CACHE,
    "nvidia/Qwen3-235B-A22B-NVFP4": Verdict(LLM, "", "b200-180", 4),
    "nvidia/Qwen3.6-27B-NVFP4": Verdict(LLM, "multi-modal", "b200-180"),
    "predibase/sql-adapter": Verdict(LLM, "no-checkpoint"),
    "Qwen/Qwen3-1.7B": Verdict(LLM, "", "l4-24", 1),
    "Qwen/Qwen3-30B-A3B-FP8": Verdict(LLM, "", "h100-80", 1),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": PLANNED,
    "Qwen/Qwen3-VL-30B-A3B-Instruct": SEES,
    "Qwen/Qwen3.5-27B": SEES,
    "Qwen/Qwen3.5-397B-A17B": SEES,
    "stepfun-ai/Step-3.7-Flash": Verdict(LLM, "unknown-architecture"),
    "unsloth/gpt-oss-20b-GGUF": Verdict(LLM, "no-checkpoint"),
    "XiaomiMiMo/MiMo-7B-Base": Verdict(LLM, "unknown-architecture", "l40s-48", 1),  # its configuration is Python
    "XiaomiMiMo/MiMo-V2-Flash": OTHER_CACHE,
    "zai-org/GLM-5.2": OTHER_CACHE,
}
BILLIONS = {"DeepSeek-V3.1-NVFP4": 685, "Mixtral-8x22B-v0.1": 141, "Llama-4-Maverick-17B-128E-Instruct": 400.0}
BILLIONS |= {"MiniMax-M2.5": 230, "mxbai-rerank-base-v1": 0.184}


def tensors(name: str) -> dict[str, tuple[str, list[int]]]:
    """A tensor of the repository's nominal size; 4-bit numbers lie two in a byte."""
    last = name.rpartition("/")[2]
    named = re.search(r"(?<![A-Za-z\d])(\d+(?:\.\d+)?)B", last)
    count = int(float(named[1] if named else BILLIONS.get(last, 100)) * 1e9)
    config = CONFIGS.get(name, {})
    if "NVFP4" in name:
        return {"a": ("U8", [count // 2]), "scales": ("F8_E4M3", [count // 16])}
    return {"a": ("F8_E4M3" if "quantization_config" in config else "BF16", [count])}


def stood_in(name: str) -> str:
    """The name by which the tests' hub has the repository."""
    return f"rehearsal/{name.rpartition('/')[2]}"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    root = tmp_path_factory.mktemp("drawn")
    for name in VERDICTS:
        folder = root / "models" / name.rpartition("/")[2]
        folder.mkdir(parents=True)
        if name in FILES:
            repository(folder, None, FILES[name])
            continue
        files = {"model.safetensors": weights(**tensors(name)), "tokenizer.json": b"{}"}
        if "NVFP4" in name:
            files["hf_quant_config.json"] = json.dumps({"quantization": {"quant_algo": "NVFP4"}}).encode()
        repository(folder, CONFIGS.get(name) or ENCODERS[name], files)
    with standing(root / "models", root / "state") as running:
        yield running


def refused(hub: Standing, name: str, *, card: str = "", model: Model | None = None) -> list[Refusal]:
    """Every refusal of a repository by its name; none if it is planned."""
    verdict, source = VERDICTS[name], stood_in(name)
    try:
        files = resolve(source, hub.access()).files
        around = replace(AROUND, locked={source: files})
        fit_of(
            card or verdict.card, (model or verdict.declared(source),), "26.07", around, FitOptions(gpus=verdict.gpus)
        )
    except Refusals as several:
        return list(several.problems)
    except Refusal as single:
        return [single]
    return []


def test_every_name_has_a_verdict() -> None:
    assert sorted(VERDICTS) == sorted([*CONFIGS, *ENCODERS, *FILES]) and len(VERDICTS) == 30


@pytest.mark.parametrize("name", VERDICTS)
def test_a_name_is_planned_or_refused_for_this_reason_alone(hub: Standing, name: str) -> None:
    problems = refused(hub, name)
    assert [problem.kind for problem in problems] == [kind for kind in [VERDICTS[name].kind] if kind]
    assert all({"where", "seen", "wanted"} <= problem.facts.keys() and problem.attempt for problem in problems)
    assert not any("did you mean" in problem.attempt for problem in problems)


@pytest.mark.parametrize("name", [name for name, verdict in VERDICTS.items() if verdict.kind == "no-pytorch"])
def test_vllm_is_offered_and_serves_what_no_tensorrt_llm_has(hub: Standing, name: str) -> None:
    (problem,) = refused(hub, name)
    assert problem.attempt.startswith('runtime="vllm", image="')
    image = problem.attempt.split('image="')[1].partition('"')[0]
    parallel = Parallel(tensor=VERDICTS[name].gpus)
    assert refused(hub, name, model=LLM(stood_in(name), runtime="vllm", image=image, parallel=parallel)) == []


@pytest.mark.parametrize("name", ["nvidia/Qwen3-235B-A22B-NVFP4", "nvidia/DeepSeek-V3.1-NVFP4"])
def test_four_bits_that_modelopt_s_file_alone_names_are_refused_before_blackwell(hub: Standing, name: str) -> None:
    """Their config.json has no word of a format: earlier, such a model was planned as 16 bit, on any card."""
    assert "quantization_config" not in CONFIGS[name]
    assert [problem.kind for problem in refused(hub, name, card="h200-141")] == ["wrong-sm"]


def test_a_lock_of_before_that_file_was_read_asks_for_a_new_one(hub: Standing) -> None:
    name = "nvidia/Qwen3-235B-A22B-NVFP4"
    source = stood_in(name)
    files = resolve(source, hub.access()).files
    old = replace(files, config={key: value for key, value in files.config.items() if key != "quantization_config"})
    with pytest.raises(Refusal, match="pin --update"):
        fit_of("b200-180", (LLM(source),), "26.07", replace(AROUND, locked={source: old}), FitOptions(gpus=4))
