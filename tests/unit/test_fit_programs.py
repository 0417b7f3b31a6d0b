"""`fit`, `size` and `init` take a name as it is: an LLM on the program that loads it, an encoder as what it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.inventory.first_models import declared_models
from deploy.io.fit_models import models_of, named_models
from deploy.io.local_weights import read_local
from deploy.migrate.migration import migrate
from deploy.planning.fit import FitOptions, fit_of
from deploy.refusals.errors import Refusal
from deploy.spec import LLM, Embedder, Reranker
from tests.unit.samples import AROUND
from tests.unit.test_local_weights import safetensors
from tests.unit.test_published_served import ENTRIES

QWEN3: dict[str, Any] = ENTRIES["NousResearch/Hermes-4-14B"]["config"]
OLMO = ENTRIES["allenai/Olmo-3-7B-Instruct"]["config"]
AWQ = QWEN3 | {"quantization_config": {"quant_method": "awq"}}
ON_VLLM = ', runtime="vllm", image="vllm/vllm-openai:v0.26.0"'
BFLOAT16 = ', dtype="bfloat16"'


def directory(root: Path, name: str, config: dict[str, Any], *, is_of_sentences: bool = False) -> str:
    """The path of a local checkpoint of as many numbers as the published one."""
    place = root / name
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    (place / "tokenizer.json").write_text("{}")
    safetensors(place / "model.safetensors", weights=("BF16", [1, 7_298_000_000 if config is OLMO else 14_770_000_000]))
    if is_of_sentences:
        (place / "modules.json").write_text("[]")
        (place / "1_Pooling").mkdir()
        (place / "1_Pooling/config.json").write_text("{}")
    return str(place)


@pytest.mark.parametrize(
    ("name", "config", "is_of_sentences", "declared"),
    [
        ("Hermes-4-14B", QWEN3, False, "LLM({}"),
        ("Olmo-3-7B", OLMO, False, "LLM({}" + ON_VLLM),
        ("Hermes-4-14B-AWQ", AWQ, False, "LLM({}" + ON_VLLM),
        ("Qwen3-Embedding-8B", QWEN3, False, "Embedder({}" + BFLOAT16),
        ("my-vectors", QWEN3, True, "Embedder({}" + BFLOAT16),
        ("Qwen3-Reranker-4B", QWEN3, False, "Reranker({}" + BFLOAT16),
    ],
)
def test_inits_inventory_is_accepted_by_the_plan(
    name: str, config: dict[str, Any], is_of_sentences: bool, declared: str, tmp_path: Path
) -> None:
    path = directory(tmp_path, name, config, is_of_sentences=is_of_sentences)
    named = named_models([path])
    assert declared_models(named, ["model"]) == "model = " + declared.replace("{}", f'"{path}"') + ")\n"
    models, around = models_of([path], AROUND, tmp_path)
    assert fit_of("h100-80", models, "26.07", around).plan.slices[0].servers[0].models[0].name


def test_a_program_that_is_asked_for_is_the_one_that_is_judged(tmp_path: Path) -> None:
    """The default program counts only if none is named; a named path is one of Triton's."""
    models, around = models_of([directory(tmp_path, "hermes", QWEN3)], AROUND, tmp_path)
    awq, around_awq = models_of([directory(tmp_path, "hermes-awq", AWQ)], AROUND, tmp_path)
    assert isinstance(awq[0], LLM) and awq[0].runtime == "vllm"
    served = fit_of("h100-80", models, "26.07", around, FitOptions(runtime="vllm")).plan.slices[0].servers[0]
    assert served.standalone_llm
    for wish in (FitOptions(runtime="triton"), FitOptions(path="pytorch")):
        with pytest.raises(Exception, match=r"PyTorch backend .* does not read AWQ"):
            fit_of("h100-80", awq, "26.07", around_awq, wish)


@pytest.mark.parametrize(
    ("name", "declared", "meant"),
    [("Qwen3-Reranker-4B", Embedder, "Reranker"), ("Qwen3-Embedding-8B", Reranker, "Embedder"), ("mine", Embedder, "")],
)
def test_a_decoder_is_refused_as_the_encoder_that_its_name_denies(
    name: str, declared: type[Embedder | Reranker], meant: str, tmp_path: Path
) -> None:
    """Both have one architecture: a reranker's states would pass for vectors."""
    path = directory(tmp_path, name, QWEN3, is_of_sentences=name != "Qwen3-Reranker-4B")
    around = replace(AROUND, local={path: read_local(Path(path))})
    try:
        fit_of("h100-80", (declared(path, dtype="bfloat16"),), "26.07", around)
    except Refusal as problem:
        assert (problem.kind, problem.attempt) == ("wrong-kind", f'{meant}("{path}", dtype="bfloat16")')
        return
    assert meant == ""


@pytest.mark.parametrize(
    ("pasted", "written"),
    [
        ("vllm serve Qwen/Qwen3-Reranker-4B --runner pooling", 'Reranker(\n    "Qwen/Qwen3-Reranker-4B"'),
        ("vllm serve Qwen/Qwen3-Embedding-8B --runner pooling", 'Embedder(\n    "Qwen/Qwen3-Embedding-8B"'),
        ("docker run ghcr.io/huggingface/text-embeddings-inference:1.8 --model-id a/my-reranker", "Reranker("),
    ],
)
def test_migrate_takes_a_reranker_of_a_pooling_server_for_one(pasted: str, written: str) -> None:
    assert written in migrate(pasted).inventory


@pytest.mark.parametrize(("name", "kind"), [("qwen3-embedding-0.6b", Embedder), ("qwen3-reranker-0.6b", Reranker)])
def test_a_decoder_of_the_catalog_that_encodes_fits_in_its_own_type(name: str, kind: type, tmp_path: Path) -> None:
    """The decoder's states exceed the range of float16."""
    ((model,), around) = models_of([name], AROUND, tmp_path)
    assert isinstance(model, kind) and fit_of("l4-24", (model,), "26.07", around)
