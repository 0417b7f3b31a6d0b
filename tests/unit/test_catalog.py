"""The tables: every number that can be derived is derived here, term by term, from the checkpoint's own config."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, DRIVER_BRANCHES, GPUS, RELEASES, nearest
from deploy.catalog.gpus import card_called
from deploy.models.memory import mxfp4_bytes
from deploy.models.resolve import parsers_of
from deploy.spec import LLM, Weights


def gpt_oss_others(layers: int, experts: int) -> int:
    """Parameters outside the expert matrices: embeddings, head, norms, attention with sinks, router, biases."""
    hidden, vocabulary, query, key_value = 2880, 201_088, 64 * 64, 8 * 64
    attention = hidden * query + query + 2 * (hidden * key_value + key_value) + query * hidden + hidden + 64
    router, expert_biases, norms = experts * hidden + experts, experts * (2 * hidden + hidden), 2 * hidden
    return 2 * vocabulary * hidden + hidden + layers * (attention + router + expert_biases + norms)


@pytest.mark.parametrize(("name", "layers", "experts"), [("gpt-oss-20b", 24, 32), ("gpt-oss-120b", 36, 128)])
def test_gpt_oss_parameters_are_the_sum_of_its_parts(name: str, layers: int, experts: int) -> None:
    """The other parameters plus layers x experts x (gate, up, down) of 2880 x 2880."""
    assert CHECKPOINTS[name].shape.parameters == gpt_oss_others(layers, experts) + layers * experts * 3 * 2880 * 2880


@pytest.mark.parametrize(("name", "size"), [("gpt-oss-20b", 13_761_264_768), ("gpt-oss-120b", 65_248_815_744)])
def test_gpt_oss_bytes_are_those_of_its_published_index(name: str, size: int) -> None:
    """4.25 bits for an expert weight, 16 bits for the rest, exact to the byte."""
    row = CHECKPOINTS[name]
    assert mxfp4_bytes(row.shape) == size == row.published_bytes


def decoder(layers: int, heads: int, inner: int, vocabulary: int, query_norms: int) -> int:
    """Llama-like: untied embeddings, 8 key/value heads of 128, gated feed-forward, two norms."""
    hidden, key_value = 4096, 8 * 128
    layer = 2 * hidden * heads * 128 + 2 * hidden * key_value + 3 * hidden * inner + 2 * hidden + query_norms
    return 2 * vocabulary * hidden + hidden + layers * layer


def test_llama_parameters_are_the_sum_of_its_parts() -> None:
    """32 layers, inner 14,336, vocabulary 128,256."""
    assert CHECKPOINTS["llama-3.1-8b-instruct"].shape.parameters == decoder(32, 32, 14_336, 128_256, 0) == 8_030_261_248


@pytest.mark.parametrize("name", ["llama-3.1-70b-instruct", "llama-3.3-70b-instruct", "llama-3.3-70b-instruct-fp8"])
def test_llama_70b_parameters_are_the_sum_of_its_parts(name: str) -> None:
    """80 layers of 8,192, inner 28,672, 8 key/value heads of 128, two norms; table, head and a last norm."""
    layer = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28_672 + 2 * 8192
    assert CHECKPOINTS[name].shape.parameters == 2 * 128_256 * 8192 + 8192 + 80 * layer == 70_553_706_496


def test_mixtral_parameters_are_the_sum_of_its_parts() -> None:
    """32 layers of 4,096 with 8 experts of three 4,096 x 14,336 matrices and a router."""
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 8 * 3 * 4096 * 14_336 + 8 * 4096 + 2 * 4096
    total = 2 * 32_000 * 4096 + 4096 + 32 * layer
    assert CHECKPOINTS["mixtral-8x7b-instruct"].shape.parameters == total == 46_702_792_704


def test_qwen3_parameters_are_the_sum_of_its_parts() -> None:
    """36 layers, inner 12,288, vocabulary 151,936, and a norm of 128 on queries and on keys."""
    assert CHECKPOINTS["qwen3-8b"].shape.parameters == decoder(36, 32, 12_288, 151_936, 256) == 8_190_735_360


def bert(layers: int, hidden: int, inner: int, rows: int) -> int:
    """Embedding rows and their norm, then attention, feed-forward and two norms in each layer."""
    layer = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
    return rows * hidden + 2 * hidden + layers * layer


def test_bge_reranker_parameters_are_the_sum_of_its_parts() -> None:
    """XLM-R-large (250,002 words, 514 positions, 1 segment) and a head of 1024 x 1024 and 1024 x 1."""
    head = 1024 * 1024 + 1024 + 1024 + 1
    assert CHECKPOINTS["bge-reranker-large"].shape.parameters == bert(24, 1024, 4096, 250_002 + 514 + 1) + head


def test_minilm_parameters_are_the_sum_of_its_parts() -> None:
    """30,522 words, 512 positions, 2 segments, and the pooler that is stored but not used."""
    assert CHECKPOINTS["all-minilm-l6-v2"].shape.parameters == bert(6, 384, 1536, 30_522 + 512 + 2) + 384 * 384 + 384


def test_encoder_parameters_are_the_sum_of_their_parts() -> None:
    """Each encoder has a trunk and its stored pooler; rerankers have a head of two projections."""
    large, base, small = (size * size + size for size in (1024, 768, 384))
    counted = {
        "bge-m3": bert(24, 1024, 4096, 250_002 + 8194 + 1) + large,
        "arctic-embed-l-v2": bert(24, 1024, 4096, 250_002 + 8194 + 1) + large,
        "multilingual-e5-large": bert(24, 1024, 4096, 250_002 + 514 + 1) + large,
        "bge-base-en": bert(12, 768, 3072, 30_522 + 512 + 2) + base,
        "labse": bert(12, 768, 3072, 501_153 + 512 + 2) + base,
        "bge-reranker-v2-m3": bert(24, 1024, 4096, 250_002 + 8194 + 1) + large + 1024 + 1,
        # 30,528 words and 2 segments; no biases but of norms, a third projection for the gate
        "nomic-embed-text-v1.5": 30_530 * 768 + 2 * 768 + 12 * (4 * 768 * 768 + 3 * 768 * 3072 + 4 * 768),
        # norms without biases; the first layer has none before attention
        "gte-modernbert-base": 50_368 * 768 + 22 * (4 * 768 * 768 + 3 * 768 * 1152 + 2 * 768) + 768,
        "qwen3-embedding-0.6b": 151_669 * 1024 + 28 * (6 * 1024 * 1024 + 3 * 1024 * 3072 + 2304) + 1024,
        "qwen3-reranker-0.6b": 151_669 * 1024 + 28 * (6 * 1024 * 1024 + 3 * 1024 * 3072 + 2304) + 1024,
        "ms-marco-minilm-l6-v2": bert(6, 384, 1536, 30_522 + 512 + 2) + small + 384 + 1,
    }
    assert {name: CHECKPOINTS[name].shape.parameters for name in counted} == counted


def test_nomic_parameters_are_the_sum_of_its_parts() -> None:
    """Six dense layers, six of eight experts with one shared bias, no position table."""
    words, attention, norms = 250_048 * 768 + 768 + 2 * 768, 4 * 768 * 768 + 4 * 768, 4 * 768
    dense, moe = 2 * 3072 * 768 + 3072 + 768, 8 * 768 + 2 * 8 * 3072 * 768 + 768
    total = words + 12 * (attention + norms) + 6 * dense + 6 * moe
    assert CHECKPOINTS["nomic-embed-text-v2-moe"].shape.parameters == total == 475_292_928


def test_every_checkpoint_is_pinned_to_a_commit() -> None:
    """A commit has 40 hex digits."""
    assert [row.name for row in CHECKPOINTS.values() if len(row.revision) != 40 or int(row.revision, 16) < 0] == []


def test_every_checkpoint_has_a_known_architecture() -> None:
    """Without its architecture, a checkpoint's kind and files would be unknown."""
    assert {row.shape.architecture for row in CHECKPOINTS.values()} <= ARCHITECTURES.keys()


def test_no_architecture_fetches_a_pickle_or_another_copy() -> None:
    """Root files only, except for the steps after an encoder; pickles only if a host rewrites them."""
    names = {name for row in ARCHITECTURES.values() for name in row.files}
    rewritten = {"pytorch_model.bin", "*_Dense/pytorch_model.bin"}
    assert not rewritten & {name for row in ARCHITECTURES.values() if not row.python for name in row.files}
    names -= rewritten
    assert not [name for name in names if name.endswith((".bin", ".pt", "*")) or "original" in name or "metal" in name]


def test_the_default_release_is_offered_with_its_defect() -> None:
    """Release 26.07 has an openai package that TensorRT-LLM cannot import."""
    row = RELEASES["26.07"]
    assert (row.offered, row.trtllm, row.floor, [defect.name for defect in row.defects]) == (
        True,
        "1.2.1",
        "580.65.06",
        ["openai"],
    )


def test_five_releases_are_offered() -> None:
    """The other rows distinguish known releases from misspelt ones."""
    assert [row.name for row in RELEASES.values() if row.offered] == ["24.12", "25.04", "25.10", "26.02", "26.07"]


def test_pci_ids_are_unique() -> None:
    """Preflight distinguishes cards by their PCI ids."""
    assert len({gpu.pci_id for gpu in GPUS.values()}) == len(GPUS)


def test_the_measured_card_has_81079_usable() -> None:
    """cuDeviceTotalMem of an H100 80GB HBM3, 2026-11-21."""
    assert GPUS["h100-80"].usable_mib == 81_079


def test_580_lasts_longest() -> None:
    """Branch 580 has long-term support until August 2028."""
    assert max(DRIVER_BRANCHES.values(), key=lambda branch: branch.ends).name == "580"


def test_an_unlike_name_gets_no_suggestion() -> None:
    """Only helpful suggestions are made."""
    assert nearest("zzzz", CHECKPOINTS) == ""


@pytest.mark.parametrize(
    ("more", "parsers"),
    [
        ({"checkpoint": "qwen3-8b"}, ("hermes", "qwen3")),
        ({"checkpoint": "qwen3-8b", "tool_parser": "none", "reasoning_parser": "deepseek_r1"}, ("", "deepseek_r1")),
        ({"checkpoint": "mixtral-8x7b-instruct"}, ("", "")),
        ({"checkpoint": CHECKPOINTS["qwen3-8b"].shape, "tool_parser": "mistral"}, ("mistral", "")),
    ],
)
def test_declared_parsers_precede_the_catalogs(more: dict[str, Any], parsers: tuple[str, str]) -> None:
    """A fine-tuned model may write its calls in another format than its base."""
    assert parsers_of(LLM(name="m", weights=Weights.local("/w"), **more)) == parsers


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-80"),
        ("nvidia a100-sxm4-40gb", "a100-40"),
        ("RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-96"),
        ("NVIDIA L4", "l4-24"),
        ("H100 SXM5 80GB", "h100-80"),
        ("l40s-48", "l40s-48"),
        ("NVIDIA A10G", "a10g-24"),
        ("NVIDIA B300 SXM6 AC", "b300-270"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-maxq-96"),
    ],
)
def test_a_card_is_known_by_the_name_that_nvidia_smi_prints(word: str, name: str) -> None:
    card = card_called(word)
    assert card and card.name == name


def test_no_two_cards_share_a_pci_id_or_a_name() -> None:
    rows = list(GPUS.values())
    assert len({row.pci_id for row in rows}) == len({row.smi for row in rows}) == len(rows)
    assert card_called("RTX 6000") is None
