"""Rows of systems, cards and architectures beside a second transcription of what vendors publish.

The transcriptions are of 2026-11-28, from the sources that each table names and not from `deploy/catalog`: a slip in a
row differs from them. A new row of the catalog needs a row here.
"""

from __future__ import annotations

import pytest

from deploy.catalog import ARCHITECTURES, GPUS, SYSTEMS
from deploy.catalog.mig import profiles_of
from deploy.catalog.runtimes import VLLM_ARCHITECTURES
from deploy.catalog.systems import System

PUBLISHED_SYSTEMS = """
ubuntu-22.04 | jammy    | 5.15 | 3.10 | 2.4 | 29.1.3   | ubuntu2204 | 3bf863cc
ubuntu-24.04 | noble    | 6.8  | 3.12 | 2.8 | 29.1.3   | ubuntu2404 | 3bf863cc
ubuntu-26.04 | resolute | 7.0  | 3.14 | 3.2 | 29.1.3   | ubuntu2604 | 3bf863cc
debian-12    | bookworm | 6.1  | 3.11 | 2.6 | 20.10.24 | debian12   | 3bf863cc
debian-13    | trixie   | 6.12 | 3.13 | 3.0 | 26.1.5   | debian13   | 8793f200
"""
"""Release, codename, kernel, Python, HAProxy, docker.io, NVIDIA's folder and its signing key.

Sources: distro-info-data; the packages linux-image-amd64 or linux-image-generic, python3, haproxy and docker.io of each
archive (wiki.ubuntu.com/HAProxyUpdates, packages.ubuntu.com, the release notes of Debian 12 and 13); NVIDIA's CUDA
installation guide for the keys, whose id is the end of the fingerprint.
"""

PUBLISHED_CARDS = """
h100-80         | 2330 | H100 80GB HBM3         | 9.0  | 81559  | x86_64
h100-pcie-80    | 2331 | H100 PCIe              | 9.0  | 81559  | x86_64
h100-nvl-94     | 2321 | H100 NVL               | 9.0  | 95830  | x86_64
h200-141        | 2335 | H200                   | 9.0  | 143771 | x86_64
h200-nvl-141    | 233B | H200 NVL               | 9.0  | 143771 | x86_64
gh200-96        | 2342 | GH200 480GB            | 9.0  | 97871  | aarch64
a100-80         | 20B2 | A100-SXM4-80GB         | 8.0  | 81920  | x86_64
a100-pcie-80    | 20B5 | A100 80GB PCIe         | 8.0  | 81920  | x86_64
a100-40         | 20B0 | A100-SXM4-40GB         | 8.0  | 40960  | x86_64
a100-pcie-40    | 20F1 | A100-PCIE-40GB         | 8.0  | 40960  | x86_64
l40s-48         | 26B9 | L40S                   | 8.9  | 46068  | x86_64
l40-48          | 26B5 | L40                    | 8.9  | 46068  | x86_64
l4-24           | 27B8 | L4                     | 8.9  | 23034  | x86_64
h20-96          | 2329 | H20                    | 9.0  | 97871  | x86_64
h800-80         | 2324 | H800                   | 9.0  | 81559  | x86_64
a10-24          | 2236 | A10                    | 8.6  | 23028  | x86_64
a10g-24         | 2237 | A10G                   | 8.6  | 23028  | x86_64
t4-16           | 1EB8 | Tesla T4               | 7.5  | 15360  | x86_64
b200-180        | 2901 | B200                   | 10.0 | 183359 | x86_64
b300-270        | 3182 | B300 SXM6 AC           | 10.3 | 275040 | x86_64
gb200-186       | 2941 | GB200                  | 10.0 | 189471 | aarch64
rtx-pro-6000-96 | 2BB5 | RTX PRO 6000 Blackwell Server Edition | 12.0 | 97887 | x86_64
rtx-pro-6000-ws-96 | 2BB1 | RTX PRO 6000 Blackwell Workstation Edition | 12.0 | 97887 | x86_64
rtx-pro-6000-maxq-96 | 2BB4 | RTX PRO 6000 Blackwell Max-Q Workstation Edition | 12.0 | 97887 | x86_64
"""
"""Card, device, name, compute capability, MiB, CPU.

Sources: the table of NVIDIA/open-gpu-kernel-modules' README for device and name; developer.nvidia.com/cuda-gpus for the
capability; the memory column of nvidia-smi in public listings of each card.
"""

MIG_GIGABYTES = {
    "h100-80": (10, 20, 40, 80),
    "h100-pcie-80": (10, 20, 40, 80),
    "h100-nvl-94": (12, 24, 47, 94),
    "h200-141": (18, 35, 71, 141),
    "h200-nvl-141": (18, 35, 71, 141),
    "a100-80": (10, 20, 40, 80),
    "a100-pcie-80": (10, 20, 40, 80),
    "a100-40": (5, 10, 20, 40),
    "a100-pcie-40": (5, 10, 20, 40),
    "b200-180": (23, 45, 90, 180),
    "b300-270": (34, 67, 135, 269),
}
"""GB of an eighth, a quarter, a half and the whole of a card (MIG user guide, "Supported MIG Profiles"; a B300's by
Amazon's configurations for its p6-b300, 2026-11-28)."""

OF_1_1 = """
DeepseekV3 Exaone4 Gemma3 GptOss Llama Mistral Mixtral Nemotron Phi3 Qwen2 Qwen3 Qwen3Moe
"""
"""Decoders in TensorRT-LLM's docs/source/models/supported-models.md of the 1.1 era."""
YOUNGER = "Afmoe Cohere2 ExaoneMoE Glm4Moe Laguna"
"""Decoders of the same table today that the 1.1 era lacked, without those of AutoDeploy."""
MODEL_MAP = """
Falcon Gemma Gemma2 Gemma3 Llama Mistral Mixtral Nemotron Phi3 Qwen2 Qwen3 Qwen3Moe
"""
"""Decoders in tensorrt_llm/models/__init__.py of the 1.0 era, and Qwen3 MoE of the notes of 1.0; GPT-2 besides."""
VLLM = """
Afmoe Apertus Arcee Cohere Cohere2 Cohere2Moe Cwm DeepseekV2 DeepseekV3 Ernie4_5 Ernie4_5_Moe Exaone4 ExaoneMoE Falcon
FlexOlmo GPTBigCode GPTJ GPTNeoX Gemma Gemma2 Gemma3 Glm Glm4 Glm4Moe Glm4MoeLite GptOss Granite GraniteMoe
GraniteMoeHybrid GraniteMoeShared HYV3 HunYuanDenseV1 HunYuanMoEV1 HyperCLOVAX InternLM3 Jais2 Laguna Llama Mellum
MiniMaxM2 Ministral3
Mistral Mixtral Nemotron OPT Olmo Olmo2 Olmo3 Olmoe Phi Phi3 PhiMoE Qwen2 Qwen2Moe Qwen3 Qwen3Moe SeedOss SmolLM3
StableLm Starcoder2
"""
"""Decoders in vllm/model_executor/models/registry.py of 0.26.0 that transformers can read; GPT-2 besides."""
EXPERTS = """
Afmoe Cohere2Moe DeepseekV2 DeepseekV3 Ernie4_5_Moe ExaoneMoE FlexOlmo Glm4Moe Glm4MoeLite GptOss GraniteMoe
GraniteMoeHybrid GraniteMoeShared HYV3 HunYuanMoEV1 Laguna Mellum MiniMaxM2 Mixtral Olmoe PhiMoE Qwen2Moe Qwen3Moe
"""
"""Decoders whose configuration in transformers 5.23 has a number of experts."""
LATENTS = "DeepseekV2 DeepseekV3 Glm4MoeLite"
"""Decoders whose configuration has `kv_lora_rank`."""


def rows(table: str) -> dict[str, tuple[str, ...]]:
    """The fields of each line by its first one."""
    split = [tuple(field.strip() for field in line.split("|")) for line in table.strip().splitlines()]
    return {first: tuple(rest) for first, *rest in split}


def key_id(row: System) -> str:
    return row.nvidia_key.removesuffix(".pub").lower()


def decoders(names: str) -> set[str]:
    return {f"{name}ForCausalLM" for name in names.split()}


LLMS = {name: row for name, row in ARCHITECTURES.items() if row.kind == "llm"}


def test_every_system_is_as_its_distribution_and_nvidia_publish_it() -> None:
    made = {
        name: (row.codename, row.kernel, row.python, row.haproxy, row.distribution_docker, row.nvidia_path, key_id(row))
        for name, row in SYSTEMS.items()
    }
    assert made == rows(PUBLISHED_SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_systems_key_has_the_fingerprint_of_its_name(name: str) -> None:
    row = SYSTEMS[name]
    assert len(row.nvidia_fingerprint) == 40
    assert row.nvidia_fingerprint.lower().endswith(key_id(row))
    assert row.driver_source == {"ubuntu": "canonical", "debian": "nvidia"}[row.distribution]
    assert row.has_cdi == (int(row.distribution_docker.partition(".")[0]) >= 25)


def test_every_card_is_as_nvidia_publishes_it() -> None:
    made = {
        name: (row.pci_id[5:].upper(), row.smi, f"{row.sm[:-1]}.{row.sm[-1]}", str(row.total_mib), row.platform)
        for name, row in GPUS.items()
    }
    assert made == rows(PUBLISHED_CARDS)


@pytest.mark.parametrize("name", GPUS)
def test_a_card_has_the_mig_profiles_of_nvidias_guide(name: str) -> None:
    """Seven names that follow from four sizes; MiB within 15 % of the name's GB."""
    profiles = {row.name: row for row in profiles_of(name)}
    if name not in MIG_GIGABYTES:
        assert not profiles
        return
    eighth, quarter, half, whole = MIG_GIGABYTES[name]
    named = [("1g", eighth), ("1g", quarter), ("2g", quarter), ("3g", half), ("4g", half), ("7g", whole)]
    assert profiles.keys() == {*(f"{cut}.{size}gb" for cut, size in named), f"1g.{eighth}gb+me"}
    for cut, size in named:
        assert abs(profiles[f"{cut}.{size}gb"].total_mib / 1024 / size - 1) < 0.15


def test_every_decoder_runs_where_upstream_lists_it() -> None:
    for_1_1 = {name for name, row in LLMS.items() if row.pytorch_since in ("1.0.0", "1.1.0")}
    younger = {name for name, row in LLMS.items() if row.pytorch_since not in ("", "1.0.0", "1.1.0")}
    assert (for_1_1, younger) == (decoders(OF_1_1), decoders(YOUNGER))
    engines = {name for name, row in LLMS.items() if row.engine}
    assert engines == decoders(MODEL_MAP) - {"Gemma3ForCausalLM"} | {"GPT2LMHeadModel"}, "Gemma 3 is not planned here"
    assert decoders(VLLM) | {"GPT2LMHeadModel"} == VLLM_ARCHITECTURES


def test_a_decoder_has_experts_and_latents_as_its_configuration_does() -> None:
    assert {name for name, row in LLMS.items() if row.experts} == decoders(EXPERTS)
    assert {name for name, row in LLMS.items() if row.latent_cache} == decoders(LATENTS)
