"""Models as operators typed them in November 2026: the verdict of each, before and after its repository is locked.

The cases come from a study of inventories, with its verdicts of that time. Numbers were typed from config.json.
`test_published` has the same models by name alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from deploy.inventory.fleet import Fleet
from deploy.planning.plan import make_plan
from deploy.refusals.errors import Refusal, Refusals
from deploy.spec import LLM, Checkpoint, Embedder, Machine, Model, Reranker, Server, Weights
from deploy.spec.surroundings import Surroundings
from tests.unit.published import COMMIT, locked
from tests.unit.samples import AROUND, GPT_OSS, MACHINE, sources

XLMR_LARGE: dict[str, Any] = {
    "layers": 24, "hidden": 1024, "heads": 16, "intermediate": 4096, "vocabulary": 250_002,
}  # fmt: skip
QWEN_32B = Checkpoint(
    architecture="Qwen3ForCausalLM",
    parameters=32_762_123_264,
    layers=64,
    hidden=5120,
    heads=64,
    kv_heads=8,
    head_dim=128,
    intermediate=25_600,
    vocabulary=151_936,
    positions=40_960,
)
LLAMA_70B = Checkpoint(
    architecture="LlamaForCausalLM",
    parameters=70_553_706_496,
    layers=80,
    hidden=8192,
    heads=64,
    kv_heads=8,
    head_dim=128,
    intermediate=28_672,
    vocabulary=128_256,
    positions=131_072,
)
QWEN_235B = replace(
    QWEN_32B,
    architecture="Qwen3MoeForCausalLM",
    parameters=235_093_634_560,
    layers=94,
    hidden=4096,
    kv_heads=4,
    intermediate=12_288,
    positions=262_144,
    experts=128,
    active_experts=8,
    quantisation="fp8",
)
DEEPSEEK_R1 = Checkpoint(
    architecture="DeepseekV3ForCausalLM",
    parameters=684_531_386_000,
    layers=61,
    hidden=7168,
    heads=128,
    kv_heads=128,
    head_dim=128,
    intermediate=18_432,
    vocabulary=129_280,
    positions=163_840,
    experts=256,
    active_experts=8,
    quantisation="fp8",
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    q_lora_rank=1536,
)
GLM_AS_LLAMA = Checkpoint(
    architecture="LlamaForCausalLM",
    parameters=110_468_824_832,
    layers=46,
    hidden=4096,
    heads=96,
    kv_heads=8,
    head_dim=128,
    intermediate=10_944,
    vocabulary=151_552,
    positions=131_072,
    experts=128,
    active_experts=8,
)
PHI_4 = Checkpoint(
    architecture="Phi3ForCausalLM",
    parameters=14_659_507_200,
    layers=40,
    hidden=5120,
    heads=40,
    kv_heads=10,
    intermediate=17_920,
    vocabulary=100_352,
    positions=16_384,
)
CODER = Checkpoint(
    architecture="Qwen2ForCausalLM",
    parameters=32_763_876_352,
    layers=64,
    hidden=5120,
    heads=40,
    kv_heads=8,
    intermediate=27_648,
    vocabulary=152_064,
    positions=32_768,
    quantisation="gptq",
)
JINA_AS_XLMR = Checkpoint(architecture="XLMRobertaModel", parameters=572_310_396, positions=8194, **XLMR_LARGE)
GTE_AS_BERT = Checkpoint(
    architecture="BertModel",
    parameters=149_014_272,
    layers=22,
    hidden=768,
    heads=12,
    intermediate=1152,
    vocabulary=50_368,
    positions=8192,
)
GEMMA_3_AS_GEMMA = Checkpoint(
    architecture="GemmaForCausalLM",
    parameters=999_885_952,
    layers=26,
    hidden=1152,
    heads=4,
    kv_heads=1,
    head_dim=256,
    intermediate=6912,
    vocabulary=262_144,
    positions=32_768,
)
LABSE = Checkpoint(
    architecture="BertModel",
    parameters=470_926_848,
    layers=12,
    hidden=768,
    heads=12,
    intermediate=3072,
    vocabulary=501_153,
    positions=512,
)
BGE_M3 = Checkpoint(architecture="XLMRobertaModel", parameters=567_754_752, positions=8194, **XLMR_LARGE)
BGE_V2_M3 = Checkpoint(
    architecture="XLMRobertaForSequenceClassification", parameters=567_755_777, positions=8194, **XLMR_LARGE
)
QWEN_EMBEDDING = replace(
    QWEN_32B, parameters=595_776_512, layers=28, hidden=1024, heads=16, intermediate=3072, vocabulary=151_669
)


def hub(repository: str) -> Weights:
    return Weights.hub(repository, COMMIT)


def llm(checkpoint: str | Checkpoint, repository: str, **changes: Any) -> LLM:
    return LLM(name="m", checkpoint=checkpoint, weights=hub(repository), **changes)


def embedder(checkpoint: Checkpoint, repository: str, **changes: Any) -> Embedder:
    return Embedder(name="m", checkpoint=checkpoint, weights=hub(repository), **changes)


LONG: dict[str, Any] = {"max_seq_len": 32_768, "chunked_prefill": True}


class Case(NamedTuple):
    """A model on a machine; the kinds of its refusals before and after its repository is locked."""

    then: str
    """The verdict of the study, and the reason."""
    model: Model
    unlocked: str
    entry: str = ""
    """The repository among the published ones."""
    locked: str = ""
    gpu: str = "h100-80"
    gpus: int = 1


CASES = {
    "r12": Case("works", llm(replace(QWEN_32B, quantisation="fp8"), "Qwen/Qwen3-32B-FP8", **LONG), "", "qwen3-32b-fp8",
                gpu="l40s-48", gpus=4),
    "r21": Case("wrong: no safetensors on the hub", embedder(BGE_M3, "BAAI/bge-m3", max_tokens=8192), "", "bge-m3"),
    "r19b": Case("works", Reranker(name="m", checkpoint=BGE_V2_M3, weights=hub("BAAI/bge-reranker-v2-m3")), "",
                 "bge-reranker-v2-m3", gpu="l40s-48"),
    "r24": Case("refused without help", llm(LLAMA_70B, "casperhansen/llama-3.3-70b-instruct-awq", precision="int4_awq"),
                "format-not-read", "llama-3.3-70b-awq", "format-not-read"),
    "r25": Case("works, it said", llm(replace(LLAMA_70B, quantisation="fp8"),
                "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"), "format-not-read", "llama-3.3-70b-redhat-fp8",
                "format-not-read", gpus=2),
    "r25b": Case("works, it said", llm("llama-3.3-70b-instruct-fp8", "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"),
                 "format-not-read", "llama-3.3-70b-redhat-fp8", "format-not-read", gpus=2),
    "r26": Case("works", llm("llama-3.1-8b-instruct", "acme/support-llama"), "", "my-finetune-of-llama"),
    "r27": Case("works", llm(DEEPSEEK_R1, "deepseek-ai/DeepSeek-R1-0528", **LONG), "", "deepseek-r1",
                "numbers-of-other-files", gpu="h200-141", gpus=8),
    "r28": Case("works, it said", llm(QWEN_235B, "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", **LONG), "",
                "qwen3-235b-a22b-fp8", "blocks-cut numbers-of-other-files", gpus=8),
    "r40": Case("works", llm(PHI_4, "microsoft/phi-4"), "", "phi-4", gpu="a100-40"),
    "r41": Case("refused without help", embedder(QWEN_EMBEDDING, "Qwen/Qwen3-Embedding-0.6B", dtype="bfloat16"),
                "", "qwen3-embedding-0.6b", "numbers-of-other-files"),
    "r43": Case("wrong: a Dense step was dropped", embedder(LABSE, "sentence-transformers/LaBSE"), "", "labse"),
    "r45": Case("wrong: planned where nothing reads it", llm(CODER, "Qwen/Qwen2.5-Coder-32B-Instruct-GPTQ-Int4"),
                "format-not-read", "qwen2.5-coder-32b-gptq-int4", "format-not-read", gpu="a100-80"),
    "r47": Case("wrong: 128 experts in a Llama", llm(GLM_AS_LLAMA, "zai-org/GLM-4.5-Air"), "dense-with-experts",
                "glm-4.5-air", "dense-with-experts numbers-of-other-files", gpus=4),
    "h05": Case("wrong", embedder(JINA_AS_XLMR, "jinaai/jina-embeddings-v3"), "", "jina-embeddings-v3",
                "numbers-of-other-files"),
    "h06": Case("wrong", llm(GEMMA_3_AS_GEMMA, "google/gemma-3-1b-it"), "unjudged-engine untrusted-engine",
                "gemma-3-1b-it", "numbers-of-other-files"),
    "h10": Case("wrong", embedder(GTE_AS_BERT, "Alibaba-NLP/gte-modernbert-base", max_tokens=8192),
                "numbers-of-another-checkpoint", "gte-modernbert-base", "numbers-of-other-files"),
    "m124": Case("believed", llm(replace(QWEN_32B, hidden=512), "Qwen/Qwen3-32B"), "numbers-apart", "qwen3-32b",
                 "numbers-apart numbers-of-other-files"),
    "t55": Case("refused poorly", llm(replace(QWEN_32B, architecture="LlamaForCausalLM", experts=128, active_experts=8),
                "a/b"), "dense-with-experts"),
    "t58": Case("believed", llm(QWEN_32B, "Qwen/Qwen3-32B-FP8"), "", "qwen3-32b-fp8", "numbers-of-other-files"),
    "t59": Case("believed", llm(QWEN_32B, "Qwen/Qwen3-32B-AWQ"), "format-not-read", "qwen3-32b-awq", "format-not-read"),
    "t60": Case("taken, with a note", llm("llama-3.1-8b-instruct",
                "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4"), "format-not-read"),
}  # fmt: skip


def kinds(case: Case, around: Surroundings) -> list[str]:
    """The kinds of every refusal, sorted."""
    machine: Machine = replace(MACHINE, gpu=case.gpu, gpus=case.gpus, nvswitch=case.gpus == 8)
    gpus = tuple(range(case.gpus))
    server = Server(name="main", models=(case.model,), gpus=gpus, start_seconds=3600)
    try:
        make_plan(Fleet.of(sources(machine=machine, servers=(server,))), around)
    except Refusals as several:
        return sorted(problem.kind for problem in several.problems)
    except Refusal as single:
        return [single.kind]
    return []


@pytest.mark.parametrize("name", CASES)
def test_a_model_typed_by_hand_has_its_verdict(name: str) -> None:
    case = CASES[name]
    assert kinds(case, AROUND) == case.unlocked.split()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.entry])
def test_a_locked_repository_has_the_last_word(name: str) -> None:
    """The same inventory after `enginehouse pin`: numbers and formats are those of the files."""
    case = CASES[name]
    weights = case.model.weights
    files = replace(locked(case.entry), repository=weights.repository, revision=weights.revision)
    assert kinds(case, replace(AROUND, locked={weights.repository: files})) == case.locked.split()


def test_the_plan_notes_uncompared_numbers() -> None:
    """The note has the command that compares the numbers; a model given by name, or compared before, has no note."""
    case = CASES["r40"]
    machine = replace(MACHINE, gpu="a100-40")
    plan = make_plan(Fleet.of(sources(machine=machine, servers=(Server(name="main", models=(case.model,)),))), AROUND)
    noted = [warning for warning in plan.warnings if "nobody compared them" in warning]
    assert noted and "`enginehouse pin INVENTORY` does" in noted[0]
    plan = make_plan(Fleet.of(sources(servers=(Server(name="main", models=(GPT_OSS,)),))), AROUND)
    assert not [warning for warning in plan.warnings if "nobody compared them" in warning]
