"""Formats of weights on each card: what TensorRT-LLM and vLLM 0.26.0 have kernels for, by their own sources.

TensorRT-LLM: the hardware matrix of docs/source/features/quantization.md; `fp8_block_scaling_gemm` has SM 89, 90, 100
and 120 (its main branch, not the image of 1.2.1, which nobody has looked into), and the experts' kernel Hopper. vLLM:
`get_min_capability` of each method; Marlin's kernels read FP8, MXFP4 and NVFP4 into 16 bit on older cards. Read
2026-11-28.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deploy.catalog import GPUS
from deploy.planning.fit import FitOptions, fit_of, model_named, near_card
from deploy.refusals.errors import Refusal, Refusals
from deploy.spec import LLM, Model
from tests.unit.published import locked
from tests.unit.samples import AROUND
from tests.unit.test_published_served import ENTRIES

COMPRESSED = {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}
FORMATS: dict[str, tuple[dict[str, Any], str]] = {
    "16 bit": ({}, "BF16"),
    "ModelOpt's FP8": ({"quant_method": "modelopt", "quant_algo": "FP8"}, "F8_E4M3"),
    "FP8 in blocks": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "F8_E4M3"),
    "FP8 per channel": ({"quant_method": "compressed-tensors", "config_groups": COMPRESSED}, "F8_E4M3"),
    "NVFP4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "U8"),
    "AWQ": ({"quant_method": "awq"}, "I32"),
}
DENSE, OF_EXPERTS = "NousResearch/Hermes-4-14B", "Qwen/Qwen3-30B-A3B-GPTQ-Int4"
AMPERE, ADA, HOPPER, BLACKWELL = (
    ("a10-24", "a100-80"),
    ("l4-24", "l40s-48"),
    ("h20-96", "h800-80", "h200-141"),
    (
        "b200-180",
        "b300-270",
        "rtx-pro-6000-96",
    ),
)


def refused(card: str, format: str, runtime: str = "", like: str = DENSE) -> list[Refusal]:
    """Every refusal of 1.5 billion numbers in this format on one card."""
    quantization, kind = FORMATS[format]
    entry = ENTRIES[like]
    config = {key: value for key, value in entry["config"].items() if key != "quantization_config"}
    config |= {"quantization_config": quantization} if quantization else {}
    files = locked(like, {like: entry | {"config": config, "elements": {kind: 1_500_000_000}}})
    if "ModelOpt" in format or format == "NVFP4":
        files = replace(files, files=(*files.files, "hf_quant_config.json"))
    return of_model(card, LLM(like), runtime, replace(AROUND, locked={like: files}))


def of_model(card: str, model: Model, runtime: str, around: Any = AROUND) -> list[Refusal]:
    try:
        fit_of(card, (model,), "26.07", around, FitOptions(runtime=runtime, max_seq_len=2048))
    except Refusals as several:
        return list(several.problems)
    except Refusal as single:
        return [single]
    return []


def kinds(problems: list[Refusal]) -> str:
    return ",".join(problem.kind for problem in problems)


@pytest.mark.parametrize(
    ("format", "runtime", "loads"),
    [
        ("16 bit", "", (*AMPERE, *ADA, *HOPPER, *BLACKWELL)),
        ("ModelOpt's FP8", "", (*ADA, *HOPPER, *BLACKWELL)),
        ("FP8 in blocks", "", (*ADA, *HOPPER, *BLACKWELL)),
        ("NVFP4", "", BLACKWELL),
        ("16 bit", "vllm", (*AMPERE, *ADA, *HOPPER, *BLACKWELL)),
        ("ModelOpt's FP8", "vllm", (*ADA, *HOPPER, *BLACKWELL)),
        ("FP8 in blocks", "vllm", (*AMPERE, *ADA, *HOPPER, *BLACKWELL)),
        ("FP8 per channel", "vllm", (*AMPERE, *ADA, *HOPPER, *BLACKWELL)),
        ("NVFP4", "vllm", (*AMPERE, *ADA, *HOPPER, *BLACKWELL)),
        ("AWQ", "vllm", (*AMPERE, *ADA, *HOPPER, *BLACKWELL)),
    ],
)
def test_a_format_loads_on_the_cards_that_have_its_kernels(format: str, runtime: str, loads: tuple[str, ...]) -> None:
    cards = (*AMPERE, *ADA, *HOPPER, *BLACKWELL)
    assert {card: kinds(refused(card, format, runtime)) for card in cards} == {
        card: "" if card in loads else "wrong-sm" for card in cards
    }


@pytest.mark.parametrize(("card", "kind"), [("l40s-48", "wrong-sm"), ("h200-141", ""), ("b200-180", "")])
def test_experts_in_blocks_of_fp8_have_no_kernel_on_ada(card: str, kind: str) -> None:
    problems = refused(card, "FP8 in blocks", like=OF_EXPERTS)
    assert kinds(problems) == kind
    assert not problems or problems[0].attempt.startswith('runtime="vllm", image="')
    assert refused(card, "FP8 in blocks", "vllm", OF_EXPERTS) == []


@pytest.mark.parametrize(
    ("card", "format", "is_offered"),
    [("a100-80", "FP8 in blocks", True), ("h200-141", "NVFP4", True), ("a100-80", "ModelOpt's FP8", False)],
)
def test_vllm_is_offered_where_it_reads_what_the_card_lacks(card: str, format: str, is_offered: bool) -> None:
    (problem,) = refused(card, format)
    assert problem.attempt.startswith('runtime="vllm", image="') is is_offered
    assert (refused(card, format, "vllm") == []) is is_offered


def test_gpt_oss_needs_hopper_in_triton_and_ampere_in_vllm() -> None:
    model = model_named("gpt-oss-20b")
    assert {card: kinds(of_model(card, model, "")) for card in ("a100-80", "l40s-48", "h20-96")} == {
        "a100-80": "wrong-sm",
        "l40s-48": "wrong-sm",
        "h20-96": "",
    }
    assert [of_model(card, model, "vllm") for card in ("a100-80", "l4-24", "l40s-48")] == [[], [], []]
    (problem,) = of_model("l4-24", model, "")
    assert problem.attempt.startswith('runtime="vllm"')


@pytest.mark.parametrize("word", ["v100", "V100-SXM2-32GB", "p40"])
def test_a_card_before_turing_is_unknown(word: str) -> None:
    """It has no open kernel modules, so no row of the catalog and no declaration plans it."""
    card, _ = near_card(word)
    assert card not in GPUS
    assert kinds(of_model(card, LLM("a/b"), "")).startswith("unknown-gpu")


@pytest.mark.parametrize(("word", "kind"), [("gh200", "platform"), ("gb200", "platform"), ("t4", "own-card")])
def test_a_card_that_is_known_and_serves_no_llm_says_why(word: str, kind: str) -> None:
    assert kinds(of_model(near_card(word)[0], model_named("qwen3-8b"), "")).startswith(kind)
