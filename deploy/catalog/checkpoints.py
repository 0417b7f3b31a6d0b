"""Checkpoints by the name an inventory uses: shape, repository, a pinned commit somebody else pins too, and sizes.

Sources: config.json of each repository (through public copies, read 2026-11-20) for the shapes. A `revision` is the
         commit that public
repositories pin and that was found in many of them on 2026-11-21 (public code search); it is a default to copy into
an inventory, never used behind its back. `published_bytes` is what the safetensors of that commit hold. Parameter
counts are derived in `tests/unit/test_catalog.py`, term by term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from deploy.spec.sources import Checkpoint  # not from deploy.spec, whose Server takes its release from here


@dataclass(frozen=True, kw_only=True)
class KnownCheckpoint:
    """A row; `dimensions` is the length of an embedder's vectors, `max_tokens` what an encoder was trained for.

    The parsers have vLLM's names (its pages on tool calling and reasoning outputs, read 2026-11-23); "" for none.
    """

    name: str
    shape: Checkpoint
    repository: str
    revision: str
    published_bytes: int
    dimensions: int = 0
    max_tokens: int = 0
    gated: bool = False
    tool_parser: str = ""
    reasoning_parser: str = ""


class _Shape(TypedDict):
    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    positions: int


_LLAMA_70B = _Shape(
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

_ROWS = (
    KnownCheckpoint(
        name="gpt-oss-20b",
        repository="openai/gpt-oss-20b",
        revision="6cee5e81ee83917806bbde320786a8fb61efebee",
        published_bytes=13_761_264_768,
        tool_parser="harmony",
        shape=Checkpoint(
            architecture="GptOssForCausalLM",
            parameters=20_914_757_184,
            layers=24,
            hidden=2880,
            heads=64,
            kv_heads=8,
            head_dim=64,
            intermediate=2880,
            vocabulary=201_088,
            positions=131_072,
            experts=32,
            active_experts=4,
            quantisation="mxfp4",
        ),
    ),
    KnownCheckpoint(
        name="gpt-oss-120b",
        repository="openai/gpt-oss-120b",
        revision="b5c939de8f754692c1647ca79fbf85e8c1e70f8a",
        published_bytes=65_248_815_744,
        tool_parser="harmony",
        shape=Checkpoint(
            architecture="GptOssForCausalLM",
            parameters=116_829_156_672,
            layers=36,
            hidden=2880,
            heads=64,
            kv_heads=8,
            head_dim=64,
            intermediate=2880,
            vocabulary=201_088,
            positions=131_072,
            experts=128,
            active_experts=4,
            quantisation="mxfp4",
        ),
    ),
    KnownCheckpoint(
        name="llama-3.1-8b-instruct",
        repository="meta-llama/Llama-3.1-8B-Instruct",
        revision="0e9e39f249a16976918f6564b8830bc894c89659",
        published_bytes=2 * 8_030_261_248,
        gated=True,
        tool_parser="llama3_json",
        shape=Checkpoint(
            architecture="LlamaForCausalLM",
            parameters=8_030_261_248,
            layers=32,
            hidden=4096,
            heads=32,
            kv_heads=8,
            head_dim=128,
            intermediate=14_336,
            vocabulary=128_256,
            positions=131_072,
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
        published_bytes=68_452_360_192 + 2 * 2_101_346_304,  # fp8 but for table and head; not read from its index
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
            parameters=46_702_792_704,
            layers=32,
            hidden=4096,
            heads=32,
            kv_heads=8,
            head_dim=128,
            intermediate=14_336,
            vocabulary=32_000,
            positions=32_768,
            experts=8,
            active_experts=2,
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
            architecture="Qwen3ForCausalLM",
            parameters=8_190_735_360,
            layers=36,
            hidden=4096,
            heads=32,
            kv_heads=8,
            head_dim=128,
            intermediate=12_288,
            vocabulary=151_936,
            positions=40_960,
        ),
    ),
    KnownCheckpoint(
        name="bge-reranker-large",
        repository="BAAI/bge-reranker-large",
        revision="55611d7bca2a7133960a6d3b71e083071bbfc312",
        published_bytes=4 * 559_891_457,
        max_tokens=512,
        shape=Checkpoint(
            architecture="XLMRobertaForSequenceClassification",
            parameters=559_891_457,
            layers=24,
            hidden=1024,
            heads=16,
            head_dim=64,
            intermediate=4096,
            vocabulary=250_002,
            positions=514,
        ),
    ),
    KnownCheckpoint(
        name="nomic-embed-text-v2-moe",
        repository="nomic-ai/nomic-embed-text-v2-moe",
        revision="1066b6599d099fbb93dfcb64f9c37a7c9e503e85",
        published_bytes=4 * 475_292_928,
        dimensions=768,
        max_tokens=512,
        shape=Checkpoint(
            architecture="NomicBertModel",
            parameters=475_292_928,
            layers=12,
            hidden=768,
            heads=12,
            head_dim=64,
            intermediate=3072,
            vocabulary=250_048,
            positions=2048,
            experts=8,
            active_experts=2,
        ),
    ),
    KnownCheckpoint(
        name="all-minilm-l6-v2",
        repository="sentence-transformers/all-MiniLM-L6-v2",
        revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        published_bytes=4 * 22_713_216,
        dimensions=384,
        max_tokens=512,
        shape=Checkpoint(
            architecture="BertModel",
            parameters=22_713_216,
            layers=6,
            hidden=384,
            heads=12,
            head_dim=32,
            intermediate=1536,
            vocabulary=30_522,
            positions=512,
        ),
    ),
)

CHECKPOINTS: dict[str, KnownCheckpoint] = {row.name: row for row in _ROWS}
