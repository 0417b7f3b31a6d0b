"""Cards by other words than the catalog's: machine types of clouds, lines of tools, and cards of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.catalog import GPUS
from deploy.catalog.machine_types import card_in
from deploy.planning.card_words import confirm_order
from deploy.refusals.errors import Refusal
from deploy.validation.cards import with_count
from tests.unit.samples import MACHINE, refusals

MACHINE_TYPES = [
    ("p5.4xlarge", "h100-80", 1),
    ("p5en.48xlarge", "h200-141", 8),
    ("ml.p6-b300.48xlarge", "b300-270", 8),
    ("g6e.12xlarge", "l40s-48", 4),
    ("g7e.24xlarge", "rtx-pro-6000-96", 4),
    ("g4dn.metal", "t4-16", 8),
    ("a3-highgpu-1g", "h100-80", 1),
    ("a3-ultragpu-8g", "h200-141", 8),
    ("a2-ultragpu-2g", "a100-80", 2),
    ("g2-standard-96", "l4-24", 8),
    ("g4-standard-48", "rtx-pro-6000-96", 1),
    ("Standard_NC40ads_H100_v5", "h100-nvl-94", 1),
    ("ND96isr_H200_v5", "h200-141", 8),
    ("Standard_NC48ads_A100_v4", "a100-pcie-80", 2),
    ("H100-2-80G", "h100-pcie-80", 2),
]
NAMED = [
    ("gpu-h100x1-80gb", "h100-80", 1),
    ("gpu-h200x8-1128gb", "h200-141", 8),
    ("gpu_8x_b200_sxm6", "b200-180", 8),
    ("gpu_1x_h100_pcie", "h100-pcie-80", 1),
    ("BM.GPU.H100.8", "h100-80", 8),
    ("H100-SXM-4-80G", "h100-80", 4),
    ("gx3d-160x1792x8h100", "", 0),
    ("n3-H100x8-NVLink", "h100-80", 8),
    ("10de:2321", "h100-nvl-94", 0),
    ("01:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)", "h100-80", 0),
    ("NVIDIA H100 80GB HBM3, 81559 MiB, 580.159.04", "h100-80", 0),
    ("GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-6bd1)", "a100-pcie-40", 0),
    ("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition", "rtx-pro-6000-maxq-96", 0),
    ("gpu_1x_a100_sxm4", "a100-40", 1),  # Lambda's name of its 80 GB has the size
    ("NVIDIA A100 PCIe Gen4 x16", "a100-pcie-40", 0),
    ("x86_64 server with H100 SXM", "h100-80", 0),
    ("NVIDIA H800 PCIe", "", 0),  # another board of it is in the catalog
    ("NVIDIA H20-3e", "", 0),
    ("H20 141GB", "", 0),
    ("H100 CUDA 12.8", "h100-80", 0),
    ("H100 or H200", "", 0),
]


@pytest.mark.parametrize(("word", "card", "count"), MACHINE_TYPES)
def test_a_cloud_s_machine_type_is_answered_with_its_card(word: str, card: str, count: int) -> None:
    with pytest.raises(Refusal) as refused:
        confirm_order(word, ("bge-m3",))
    assert refused.value.problem == f"{word} is a machine type with {count} x {GPUS[card].title}, and no card"
    assert refused.value.attempt == f"enginehouse fit {card} bge-m3" + (f" --tp {count}" if count > 1 else "")


@pytest.mark.parametrize(("text", "card", "count"), NAMED)
def test_a_card_is_found_among_other_words(text: str, card: str, count: int) -> None:
    assert card_in(text) == (card, count)


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("AMD Instinct MI300X VF", "AMD's"),
        ("MI355X", "AMD's"),
        ("Intel Gaudi 3", "Intel's"),
        ("HL-325L", "Intel's"),
        ("tpu-v6e", "Google's own"),
        ("trn2.48xlarge", "Amazon's own"),
        ("Apple M4 Max", "Apple's"),
        ("DGX Spark", "aarch64"),
        ("NVIDIA GB10", "aarch64"),
        ("Jetson AGX Thor", "aarch64"),
        ("NVIDIA GH200 144G HBM3e", "aarch64"),
        ("ND128isr_NDR_GB200_v6", "aarch64"),
        ("a4x-highgpu-4g", "aarch64"),
        ("Standard_NV12ads_A10_v5", "vGPU"),
        ("g4-standard-24", "vGPU"),
        ("g6f.2xlarge", "vGPU"),
        ("Tesla V100-SXM2-32GB", "older"),
        ("p3.2xlarge", "older"),
    ],
)
def test_a_card_that_no_declaration_helps_is_not_offered_one(word: str, words: str) -> None:
    """Earlier, each of these was asked for its compute capability."""
    with pytest.raises(Refusal) as refused:
        confirm_order(word, ("bge-m3",))
    assert words in refused.value.problem and "--sm" not in refused.value.attempt
    assert "did you mean" not in refused.value.attempt


@pytest.mark.parametrize(
    ("word", "typed"),
    [
        ("NVIDIA GeForce RTX 4090", "nvidia-geforce-rtx-4090 bge-m3 --sm 89 --mib 24564"),
        ("2x RTX 6000 Ada", "rtx-6000-ada bge-m3 --sm 89 --mib 49140 --tp 2"),
        ("NVIDIA A800-SXM4-80GB", "nvidia-a800-sxm4-80gb bge-m3 --sm 80 --mib 81920"),
        ("H20-3e", "h20-3e bge-m3 --sm 90 --mib 143771"),
    ],
)
def test_a_card_of_public_listings_is_offered_its_numbers(word: str, typed: str) -> None:
    with pytest.raises(Refusal) as refused:
        confirm_order(word, ("bge-m3",))
    assert refused.value.attempt == f"enginehouse fit {typed}"


@pytest.mark.parametrize(
    ("word", "attempt"),
    [
        ("p5.48xlarge", 'gpu="h100-80", gpus=8'),
        ("10de:2330", 'gpu="h100-80"'),
        ("NVIDIA-H100-80GB-HBM3", 'gpu="h100-80"'),
        ("BM.GPU.B200.8", 'gpu="b200-180", gpus=8'),
        ("AMD EPYC with 8x H100 SXM", 'gpu="h100-80", gpus=8'),
        ("Intel Xeon, 4x H200", 'gpu="h200-141", gpus=4'),
    ],
)
def test_an_inventory_is_corrected_with_the_card_and_its_count(word: str, attempt: str) -> None:
    assert with_count(word) == attempt


def test_an_inventory_is_offered_no_card_of_another_processor() -> None:
    """`gb200-186` was offered, and is refused in turn."""
    assert with_count("GB200").startswith("known: a10-24, ")


@pytest.mark.parametrize(
    ("word", "attempt"),
    [
        ("NVIDIA B300 SXM6 AC MIG 1g.34gb", 'gpu="b300-270", mig=("1g.34gb",)'),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", 'gpu="rtx-pro-6000-96", whole: '),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 'gpu="h100-80", mig=("3g.40gb",)'),
    ],
)
def test_an_instance_of_a_card_is_corrected_on_that_card(word: str, attempt: str) -> None:
    """Earlier, every instance that no H100 has was offered as one of an H100."""
    (problem,) = [problem for problem in refusals(machine=replace(MACHINE, gpu=word)) if problem.kind == "mig"]
    assert problem.attempt.startswith(attempt)
