"""Repositories that are popular in 2026, planned from published files: each has its verdict for its release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.catalog import ARCHITECTURES
from deploy.inventory.fleet import Fleet
from deploy.models.config_json import kept
from deploy.models.runtimes import image_for
from deploy.planning.fit import FitOptions, fit_of
from deploy.planning.plan import make_plan
from deploy.refusals.errors import Refusal, Refusals
from deploy.spec import LLM, Embedder, Gateway, Model, Parallel, Reranker, Server
from tests.unit.published import ENTRIES, locked
from tests.unit.samples import AROUND, MACHINE, main, refusals, sources

VERDICTS: dict[str, tuple[type[Model], str, int, str]] = {
    "bge-m3": (Embedder, "h100-80", 1, ""),  # has only pytorch_model.bin
    "bge-reranker-v2-m3": (Reranker, "h100-80", 1, ""),
    "bge-small-en-v1.5": (Embedder, "h100-80", 1, ""),
    "deepseek-r1": (LLM, "h200-141", 8, ""),
    "deepseek-v3.2": (LLM, "h200-141", 8, "unknown-cache"),
    "embeddinggemma-300m": (Embedder, "h100-80", 1, "states-beyond-float16"),
    "gemma-3-1b-it": (LLM, "h100-80", 1, ""),
    "gemma-3-27b-it": (LLM, "h100-80", 1, "multi-modal"),
    "glm-4.5-air": (LLM, "h100-80", 4, ""),
    "glm-4.5-air-fp8": (LLM, "h100-80", 2, "format-not-read"),
    "gte-modernbert-base": (Embedder, "h100-80", 1, ""),
    "gte-reranker-modernbert-base": (Reranker, "h100-80", 1, ""),
    "jina-embeddings-v3": (Embedder, "h100-80", 1, "unknown-architecture"),
    "jina-reranker-v2": (Reranker, "h100-80", 1, "code-of-a-repository"),
    "kimi-k2": (LLM, "b200-180", 8, ""),
    "labse": (Embedder, "h100-80", 1, ""),
    "llama-3.3-70b-awq": (LLM, "h100-80", 1, "format-not-read"),
    "llama-3.3-70b-nvfp4": (LLM, "b200-180", 1, ""),
    "llama-3.3-70b-redhat-fp8": (LLM, "h100-80", 2, "format-not-read"),
    "llama-4-scout": (LLM, "h100-80", 4, "multi-modal"),
    "llama-8b-bnb-4bit": (LLM, "h100-80", 1, "format-not-read"),
    "lora-only": (LLM, "h100-80", 1, "no-checkpoint"),
    "minimax-m2": (LLM, "h200-141", 4, "no-pytorch"),
    "mistral-small-24b-2501": (LLM, "h100-80", 1, ""),
    "mistral-small-3.2": (LLM, "h100-80", 1, "multi-modal"),
    "ms-marco-minilm": (Reranker, "h100-80", 1, ""),
    "multilingual-e5-large": (Embedder, "h100-80", 1, ""),
    "mxbai-rerank-large-v1": (Reranker, "h100-80", 1, ""),
    "my-finetune-of-llama": (LLM, "h100-80", 1, ""),
    "nemotron-nano-9b-v2": (LLM, "h100-80", 1, "unknown-cache"),
    "nemotron-super-49b": (LLM, "h100-80", 2, "unknown-cache"),
    "nomic-embed-text-v1.5": (Embedder, "h100-80", 1, ""),
    "phi-4": (LLM, "h100-80", 1, ""),
    "qwen2.5-coder-32b-gptq-int4": (LLM, "a100-80", 1, "format-not-read"),
    "qwen3-235b-a22b-fp8": (LLM, "h100-80", 4, ""),
    "qwen3-30b-a3b": (LLM, "h100-80", 1, ""),
    "qwen3-32b": (LLM, "h100-80", 1, ""),
    "qwen3-32b-awq": (LLM, "h100-80", 1, "format-not-read"),
    "qwen3-32b-fp8": (LLM, "l40s-48", 1, ""),
    "qwen3-embedding-0.6b": (LLM, "h100-80", 1, "encoder-as-llm"),
    "qwen3-next-80b": (LLM, "h100-80", 4, "unknown-cache"),
    "qwen3-reranker-0.6b": (LLM, "h100-80", 1, "encoder-as-llm"),
    "snowflake-arctic-l-v2": (Embedder, "h100-80", 1, ""),
}
"""Class, card, GPUs, and the kind of the only refusal; empty if the model is planned."""


def refused(name: str, *, gpus: int = 0, parallel: Parallel | None = None) -> list[Refusal]:
    """Every refusal of one repository, declared only by its name."""
    declared, card, usual, _kind = VERDICTS[name]
    source = f"x/{name}"
    model = LLM(source, parallel=parallel) if parallel else declared(source)
    try:
        around = replace(AROUND, locked={source: locked(name)})
        fit_of(card, (model,), "26.07", around, FitOptions(gpus=gpus or usual))
    except Refusals as several:
        return list(several.problems)
    except Refusal as single:
        return [single]
    return []


def test_every_repository_has_a_verdict() -> None:
    assert sorted(VERDICTS) == sorted(ENTRIES)
    assert sum(not kind for _declared, _card, _gpus, kind in VERDICTS.values()) == 23


@pytest.mark.parametrize("name", VERDICTS)
def test_a_published_repository_is_planned_or_refused_for_this_reason_alone(name: str) -> None:
    """A fault has a single refusal, with all four parts."""
    problems = refused(name)
    assert [problem.kind for problem in problems] == [kind for kind in [VERDICTS[name][3]] if kind]
    assert all({"where", "seen", "wanted"} <= problem.facts.keys() and problem.attempt for problem in problems)


@pytest.mark.parametrize("name", [name for name, row in VERDICTS.items() if row[3] == "unknown-architecture"])
def test_no_near_name_of_an_architecture_is_offered(name: str) -> None:
    """ModernBERT is not a BERT, jina's XLM-R not XLM-R: such an offer would serve wrongly."""
    (problem,) = refused(name)
    assert "did you mean" not in problem.attempt


@pytest.mark.parametrize(("gpus", "kind"), [(4, []), (8, ["blocks-cut"])])
def test_blocks_of_experts_stay_whole(gpus: int, kind: list[str]) -> None:
    """1,536 columns are 12 blocks: 4 GPUs get 3 each, but of 8 some would get scales without weights."""
    assert [problem.kind for problem in refused("qwen3-235b-a22b-fp8", gpus=gpus)] == kind


def test_whole_experts_are_offered_and_are_taken() -> None:
    """Each of 8 GPUs has 16 of the 128 experts."""
    (problem,) = refused("qwen3-235b-a22b-fp8", gpus=8)
    assert problem.attempt.startswith("Parallel(expert=8)")
    assert refused("qwen3-235b-a22b-fp8", gpus=8, parallel=Parallel(expert=8)) == []


def test_fit_takes_the_offer_of_whole_experts_as_an_option() -> None:
    """The hint can be typed in the same command."""
    name = "qwen3-235b-a22b-fp8"
    (problem,) = refused(name, gpus=8)
    assert "--ep 8 of `enginehouse fit`" in problem.attempt
    around = replace(AROUND, locked={f"x/{name}": locked(name)})
    fitted = fit_of("h100-80", (LLM(f"x/{name}"),), "26.07", around, FitOptions(gpus=8, expert=8))
    assert fitted.cache_tokens > 900_000


@pytest.mark.parametrize(
    ("name", "card", "gpus", "weights_mib", "kinds"),
    [
        ("llama-3.3-70b-awq", "h100-80", 1, 37_669, []),
        ("qwen3-32b-awq", "l40s-48", 1, 17_848, []),
        ("qwen2.5-coder-32b-gptq-int4", "a100-80", 1, 17_752, []),
        ("llama-3.3-70b-redhat-fp8", "h100-80", 2, 34_645, []),
        ("glm-4.5-air-fp8", "h100-80", 2, 53_406, []),
        ("llama-8b-bnb-4bit", "h100-80", 1, 0, ["format-not-read"]),
        ("qwen3-235b-a22b-fp8", "h100-80", 8, 0, ["blocks-cut"]),
    ],
)
def test_vllm_beside_triton_reads_what_tensorrt_llm_does_not(
    name: str, card: str, gpus: int, weights_mib: int, kinds: list[str]
) -> None:
    """The refusal of the PyTorch backend offers it; weights count in their stored form."""
    source = f"x/{name}"
    model = LLM(source, runtime="vllm", image=image_for("vllm", ARCHITECTURES["LlamaForCausalLM"]))
    server = Server(name="main", models=(model,), gpus=tuple(range(gpus)), start_seconds=3600)
    machine = replace(MACHINE, gpu=card, gpus=gpus, nvswitch=gpus == 8)
    around = replace(AROUND, locked={source: locked(name)})
    fleet = Fleet.of(sources(machine=machine, servers=(server,), gateway=Gateway()))
    try:
        plan = make_plan(fleet, around)
    except Refusal as refusal:
        problems = refusal.problems if isinstance(refusal, Refusals) else (refusal,)
        assert [problem.kind for problem in problems] == kinds
        return
    assert kinds == []
    assert [model.memory.weights_mib for model in plan.slices[0].servers[0].models] == [weights_mib]


def test_a_format_that_nothing_of_tensorrt_llm_reads_is_offered_vllm() -> None:
    (problem,) = refused("llama-3.3-70b-awq")
    assert problem.attempt.startswith('runtime="vllm", image="')


def test_a_classifier_of_several_labels_is_refused_before_a_host_is_touched() -> None:
    """Natural-language inference gives three numbers for a pair; a lock keeps how many there are."""
    labels = {str(number): name for number, name in enumerate(("entailment", "neutral", "contradiction"))}
    config = {"architectures": ["DebertaV2ForSequenceClassification"], "id2label": labels}
    assert kept(config)["labels"] == 3 and "labels" not in kept(config | {"id2label": {"0": "LABEL_0"}})
    name = "mxbai-rerank-large-v1"
    files = replace(locked(name), config={**locked(name).config, "labels": 3})
    (problem,) = refusals(around=replace(AROUND, locked={f"x/{name}": files}), **main(Reranker(f"x/{name}")))
    assert (problem.kind, problem.facts["seen"]) == ("several-labels", "3 labels in id2label of config.json")
