"""Checkpoints by their name in an inventory: shape, repository, a pinned commit that other projects pin too, and sizes.

Sources: config.json of each repository (through public copies, read 2026-11-20) for the shapes. A `revision` is a
commit that many public repositories pinned on 2026-11-21 (public code search); it is a default to copy into an
inventory, and is never used unless the inventory names it. `published_bytes` is what the safetensors of that commit
hold. Parameter counts are derived in `tests/unit/test_catalog.py`, term by term.
"""

from dataclasses import replace

from deploy.catalog.architectures import ARCHITECTURES
from deploy.catalog.checkpoint_rows import KnownCheckpoint, shape
from deploy.catalog.encoder_checkpoints import ENCODERS
from deploy.spec.sources import Checkpoint  # importing deploy.spec would be a cycle: its Server reads the catalog

_LLAMA_70B = shape(70_553_706_496, 80, 8192, 64, 8, 128, 28_672, 128_256, 131_072)

_GPT_OSS_20B = Checkpoint(
    architecture="GptOssForCausalLM",
    experts=32,
    active_experts=4,
    quantisation="mxfp4",
    **shape(20_914_757_184, 24, 2880, 64, 8, 64, 2880, 201_088, 131_072),
)

_ROWS = (
    KnownCheckpoint(
        name="gpt-oss-20b",
        repository="openai/gpt-oss-20b",
        revision="6cee5e81ee83917806bbde320786a8fb61efebee",
        published_bytes=13_761_264_768,
        tool_parser="harmony",
        shape=_GPT_OSS_20B,
    ),
    KnownCheckpoint(
        name="gpt-oss-120b",
        repository="openai/gpt-oss-120b",
        revision="b5c939de8f754692c1647ca79fbf85e8c1e70f8a",
        published_bytes=65_248_815_744,
        tool_parser="harmony",
        shape=replace(_GPT_OSS_20B, parameters=116_829_156_672, layers=36, experts=128),
    ),
    KnownCheckpoint(
        name="llama-3.1-8b-instruct",
        repository="meta-llama/Llama-3.1-8B-Instruct",
        revision="0e9e39f249a16976918f6564b8830bc894c89659",
        published_bytes=2 * 8_030_261_248,
        gated=True,
        tool_parser="llama3_json",
        shape=Checkpoint(
            architecture="LlamaForCausalLM", **shape(8_030_261_248, 32, 4096, 32, 8, 128, 14_336, 128_256, 131_072)
        ),
    ),
    KnownCheckpoint(
        name="llama-3.1-70b-instruct",
        repository="meta-llama/Llama-3.1-70B-Instruct",
        revision="1605565b47bb9346c5515c34102e054115b4f98b",
        published_bytes=2 * 70_553_706_496,
        gated=True,
        tool_parser="llama3_json",
        shape=Checkpoint(architecture="LlamaForCausalLM", **_LLAMA_70B),
    ),
    KnownCheckpoint(
        name="llama-3.3-70b-instruct",
        repository="meta-llama/Llama-3.3-70B-Instruct",
        revision="6f6073b423013f6a7d4d9f39144961bfbfbc386b",
        published_bytes=2 * 70_553_706_496,
        gated=True,
        tool_parser="llama3_json",
        shape=Checkpoint(architecture="LlamaForCausalLM", **_LLAMA_70B),
    ),
    KnownCheckpoint(
        name="llama-3.3-70b-instruct-fp8",
        repository="nvidia/Llama-3.3-70B-Instruct-FP8",
        revision="fde04ee76a27704c88f569542ef023b57d4d0362",
        published_bytes=68_452_360_192 + 2 * 2_101_346_304,  # fp8 except table and head; calculated
        tool_parser="llama3_json",
        shape=Checkpoint(architecture="LlamaForCausalLM", quantisation="fp8", **_LLAMA_70B),
    ),
    KnownCheckpoint(
        name="mixtral-8x7b-instruct",
        repository="mistralai/Mixtral-8x7B-Instruct-v0.1",
        revision="eba92302a2861cdc0098cc54bc9f17cb2c47eb61",
        published_bytes=2 * 46_702_792_704,
        shape=Checkpoint(
            architecture="MixtralForCausalLM",
            experts=8,
            active_experts=2,
            **shape(46_702_792_704, 32, 4096, 32, 8, 128, 14_336, 32_000, 32_768),
        ),
    ),
    KnownCheckpoint(
        name="qwen3-8b",
        repository="Qwen/Qwen3-8B",
        revision="b968826d9c46dd6066d109eabc6255188de91218",
        published_bytes=2 * 8_190_735_360,
        tool_parser="hermes",
        reasoning_parser="qwen3",
        shape=Checkpoint(
            architecture="Qwen3ForCausalLM", **shape(8_190_735_360, 36, 4096, 32, 8, 128, 12_288, 151_936, 40_960)
        ),
    ),
    *ENCODERS,
)

CHECKPOINTS: dict[str, KnownCheckpoint] = {row.name: row for row in _ROWS}


def kind_of(known: KnownCheckpoint) -> str:
    return known.kind or ARCHITECTURES[known.shape.architecture].kind
