"""Formats of published weights: each is recognised by its files, and the page lists its releases and paths."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from deploy.catalog import RELEASES
from deploy.catalog.formats import FORMATS, NAMED
from deploy.catalog.versions import at_least
from deploy.models.formats import format_by_name, format_of

PAGE = Path(__file__).parents[2] / "deploy/catalog/README.md"
BLOCK = re.compile(
    r"(?<=<!-- formats: tests/unit/test_formats.py writes this -->\n)(.*?)(?=<!-- end of formats -->)", re.S
)


CHANNELS = {"type": "float", "num_bits": 8, "strategy": "channel"}


def compressed(strategy: str, bits: int = 8, kind: str = "float") -> dict[str, Any]:
    """`quantization_config` of llm-compressor with one group."""
    weights = {"type": kind, "num_bits": bits, "strategy": strategy}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


def groups(*weights: dict[str, Any] | None) -> dict[str, Any]:
    """`quantization_config` of llm-compressor with a group per argument; None makes a group of activations only."""
    rows = {f"group_{number}": {"weights": row} for number, row in enumerate(weights)}
    return {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": rows}


@pytest.mark.parametrize(
    ("quantization", "names", "row"),
    [
        ({}, (), ""),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, ("hf_quant_config.json",), "fp8-modelopt"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, ("hf_quant_config.json",), "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, ("config.json",), "modelopt-inline"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8"}, (), "modelopt-other"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, (), "fp8-blocks"),
        ({"quant_method": "fp8", "weight_block_size": [64, 128]}, (), "fp8-other-blocks"),
        ({"quant_method": "fp8"}, (), "fp8-tensor"),
        ({"quant_method": "mxfp4"}, (), "mxfp4"),
        (compressed("channel"), (), "compressed-channels"),
        (compressed("block"), (), "compressed-blocks"),
        (compressed("tensor"), (), "compressed-tensor"),
        (compressed("group", bits=4, kind="int"), (), "compressed-other"),
        ({"quant_method": "compressed-tensors", "config_groups": [1]}, (), "compressed-other"),
        (groups(None, CHANNELS), (), "compressed-channels"),
        (groups(CHANNELS, {"type": "float", "num_bits": 4}), (), "compressed-other"),
        (groups(None), (), "compressed-channels"),
        ({"quant_method": "AWQ"}, (), "awq"),
        ({"quant_method": "gptq"}, (), "gptq"),
        ({"quant_method": "bitsandbytes"}, (), "bitsandbytes"),
        ({"quant_method": "quip"}, (), "unknown"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, (), "quark-fp8"),
        ({"quant_method": "quark", "global_quant_config": {"weight": [1]}}, (), "unknown"),
        ({"quant_method": "fbgemm_fp8"}, (), "fbgemm"),
        ({"quant_method": "auto-round", "bits": 4}, (), "auto-round"),
        ({"quant_method": "exl3"}, (), "exl"),
        ({"bits": 4, "group_size": 64, "mode": "affine"}, (), "mlx"),
        ({"quant_algo": "FP8", "kv_cache_scheme": "FP8"}, ("hf_quant_config.json",), "fp8-modelopt"),
        ({"producer": "nobody"}, (), "unknown"),
    ],
)
def test_a_format_is_recognised_by_its_files(quantization: dict[str, Any], names: tuple[str, ...], row: str) -> None:
    assert format_of(quantization, names) == row
    assert not row or row in FORMATS


@pytest.mark.parametrize(
    ("repository", "row"),
    [
        ("casperhansen/llama-3.3-70b-instruct-awq", "awq"),
        ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "awq"),
        ("Qwen/Qwen2.5-Coder-32B-Instruct-GPTQ-Int4", "gptq"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "bitsandbytes"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "compressed-channels"),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16", "compressed-other"),
        ("acme/awq-trained-on-plain", ""),
        ("Qwen/Qwen3-32B-FP8", ""),
        ("acme/hawq", ""),
    ],
)
def test_the_end_of_a_name_says_a_format_until_its_files_are_known(repository: str, row: str) -> None:
    """FP8 alone gives none: makers and NVIDIA publish it in readable formats."""
    assert format_by_name(repository) == row
    assert {name for _word, name in NAMED} <= set(FORMATS)


def table() -> str:
    """Each format, and the first offered release that reads it on each path."""
    rows = ["| format | PyTorch backend | engine path | vLLM 0.26.0 |", "| --- | --- | --- | --- |"]
    offered = [row for row in RELEASES.values() if row.offered and row.trtllm]
    for row in FORMATS.values():
        first = row.pytorch_since or "99"
        releases = [release.name for release in offered if at_least(release.trtllm, first)]
        pytorch = f"from {min(releases)}" if releases else f"no: {row.why}"
        rows.append(f"| {row.title} | {pytorch} | {'yes' if row.engine else 'no'} | {'yes' if row.vllm else 'no'} |")
    return "\n".join(["", *rows, "", ""])


def test_the_page_lists_every_format() -> None:
    """`GOLDEN=write` writes the page."""
    page = PAGE.read_text("utf-8")
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(BLOCK.sub(lambda _: table(), page), "utf-8")
        page = PAGE.read_text("utf-8")
    block = BLOCK.search(page)
    assert block and block[0] == table()
