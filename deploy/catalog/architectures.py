"""Architectures by the class string of a checkpoint's config.json: programs that serve them, first version, files.

Sources, read 2026-11-20: TensorRT-LLM docs/source/models/supported-models.md (1.1 era) for `pytorch_since`; MODEL_MAP
of tensorrt_llm/models/__init__.py for `engine`; files/encoders of this repository for `python`. The engine
path ends with 1.2.1: TensorRT-LLM PR 15767 and 15907 (July 2026) remove trtllm-build, the convert scripts and
Triton's C++ backend.

Read 2026-11-27 for what was added then: docs/source/reference/support-matrix.md of 1.0 for Gemma 3, the 1.1-era table
for EXAONE 4, PR 8256 (reviewed October 2025) and the notes of 1.2.0 (2026-03-12) for GLM 4.5. Gemma 3 and EXAONE 4 have
layers with a window; every layer is counted over all tokens here, and the planner counts on neither reuse nor chunked
prefill.

`OF_VLLM`: registry, models and configurations of vLLM 0.26.0's wheel, and transformers 5.23, which reads config.json;
read 2026-11-28. Every layer of these rows keeps keys and values, or DeepSeek's latent. An architecture without a
configuration in either program (MiMo, EXAONE 3.5, Ling, InternLM 2, MiniCPM) is code of its repository, and left out.
TensorRT-LLM serves some by AutoDeploy, which is not planned here; `1.3.0` is docs/source/models/supported-models.md of
its candidates.

Only `files` are fetched: exact names, or fnmatch patterns matched against the names of the repository's
root.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict

from deploy.catalog.releases import LAST_ENGINE_TRTLLM

ENGINE_ENDS_WITH = LAST_ENGINE_TRTLLM

LLM_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "hf_quant_config.json",  # the format of ModelOpt's weights; without this file they would be read as plain numbers
    "chat_template.jinja",  # the template of newer checkpoints; older ones have it in tokenizer_config.json
)
GPT_OSS_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",  # root shards: original/ holds the weights again, metal/model.bin a third time
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
ENCODER_FILES = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "sentence_bert_config.json",
    "modules.json",
    "1_Pooling/config.json",
    "*_Dense/config.json",
    "*_Dense/model.safetensors",
    # used only if a folder has no safetensors; the host converts it without executing any of its code
    "pytorch_model.bin",
    "*_Dense/pytorch_model.bin",
)

Kind = Literal["llm", "embedder", "reranker", "multi-modal", "encoder-decoder", "unserved"]


@dataclass(frozen=True)
class Architecture:
    """An architecture by its class string.

    `pytorch_since` is empty if the PyTorch backend does not serve it; `python` is true if our encoders do.
    """

    name: str
    kind: Kind
    pytorch_since: str = ""
    engine: bool = False
    engine_since: str = ""
    """The first TensorRT-LLM with engines for it; empty if every version served here has them."""
    python: bool = False
    files: tuple[str, ...] = LLM_FILES
    tasks: tuple[str, ...] = ()
    """Prefixes the family was trained with; empty for a family without prefixes."""
    block_reuse: bool = True
    chunked_prefill: bool = True
    reserved_positions: int = 0
    """Rows of the position table that no token can have (RoBERTa starts counting at padding index + 1)."""
    experts: bool = False
    """True for an LLM with a mixture of experts."""
    gated: bool = False
    """True for an encoder whose feed-forward has a gate; of NomicBert only for models without experts."""
    float32_residuals: bool = False
    """True for an encoder that adds residuals in float32 and has causal, sliding-window or grouped-query attention."""
    relative_positions: bool = False
    """True for an encoder with DeBERTa's relative-position attention, for which no library has a kernel."""
    fits_float16: bool = True
    """True if an encoder's hidden states stay within float16's range."""
    latent_cache: bool = False
    """Multi-head latent attention: one latent a token and layer, the same on every GPU of a tensor-parallel group."""
    extra_cache: str = ""
    """The kind of cache that some models of the family need besides keys and values; empty for a family without one."""
    note: str = ""


SEARCH_TASKS = ("search_query", "search_document")
NOMIC_TASKS = ("search_query", "search_document", "classification", "clustering")

_LLMS = (
    # class string, kind, first TensorRT-LLM whose PyTorch backend serves it
    Architecture(
        "GptOssForCausalLM",
        "llm",
        "1.1.0",
        experts=True,
        files=GPT_OSS_FILES,
        block_reuse=False,  # both "No" for GPT-OSS in the 1.1-era feature matrix
        chunked_prefill=False,
        note="none in any release (asked for in TensorRT-LLM 7138, 9981, 10568); it runs on the PyTorch backend",
    ),
    Architecture("LlamaForCausalLM", "llm", "1.0.0", engine=True),
    Architecture("MistralForCausalLM", "llm", "1.0.0", engine=True),
    Architecture("MixtralForCausalLM", "llm", "1.0.0", engine=True, experts=True),
    Architecture("Qwen2ForCausalLM", "llm", "1.0.0", engine=True),
    # both are in MODEL_MAP of the 1.0 era (02267d3d4f, release notes 1.0) and in none before
    Architecture("Qwen3ForCausalLM", "llm", "1.0.0", engine=True, engine_since="1.0.0"),
    Architecture("Qwen3MoeForCausalLM", "llm", "1.0.0", engine=True, engine_since="1.0.0", experts=True),
    Architecture("Phi3ForCausalLM", "llm", "1.1.0", engine=True),
    Architecture("NemotronForCausalLM", "llm", "1.1.0", engine=True),
    Architecture("DeepseekV3ForCausalLM", "llm", "1.1.0", experts=True, latent_cache=True),
    Architecture(
        "Gemma3ForCausalLM",
        "llm",
        "1.0.0",
        block_reuse=False,
        chunked_prefill=False,
        note="the engine path's Gemma 3 is not planned here; it runs on the PyTorch backend",
    ),
    Architecture("Exaone4ForCausalLM", "llm", "1.1.0", block_reuse=False, chunked_prefill=False),
    Architecture("Glm4MoeForCausalLM", "llm", "1.2.0", experts=True, block_reuse=False),
    Architecture("GemmaForCausalLM", "llm", engine=True),
    Architecture("Gemma2ForCausalLM", "llm", engine=True),
    Architecture("GPT2LMHeadModel", "llm", engine=True),
    Architecture("FalconForCausalLM", "llm", engine=True),
)

_DENSE = (
    *("Apertus", "Arcee", "Cohere", "Cwm", "Ernie4_5", "Glm", "Glm4", "GPTBigCode", "GPTJ", "GPTNeoX", "Granite"),
    *("HunYuanDenseV1", "HyperCLOVAX", "InternLM3", "Jais2", "Ministral3", "OPT", "Olmo", "Olmo2", "Olmo3", "Phi"),
    *("SeedOss", "SmolLM3", "StableLm", "Starcoder2"),
)
_OF_EXPERTS = (
    *("Cohere2Moe", "Ernie4_5_Moe", "FlexOlmo", "GraniteMoe", "GraniteMoeShared", "HunYuanMoEV1", "HYV3", "Mellum"),
    *("MiniMaxM2", "Olmoe", "PhiMoE", "Qwen2Moe"),
)
_STATES = "states of a fixed size for each sequence beside the keys and values of some layers"
_SINCE_1_3 = {"Afmoe": True, "Cohere2": False, "ExaoneMoE": True, "Laguna": True}
"""Decoders that release candidates of TensorRT-LLM 1.3 also serve; the value is True for a mixture of experts."""

OF_VLLM = tuple(
    Architecture(
        f"{name}ForCausalLM",
        "llm",
        "1.3.0" if name in _SINCE_1_3 else "",
        experts=_SINCE_1_3.get(name, name not in _DENSE),
        latent_cache=name in ("DeepseekV2", "Glm4MoeLite"),
        extra_cache=_STATES if name == "GraniteMoeHybrid" else "",
        note="it is in no release of TensorRT-LLM here",
    )
    for name in (*_DENSE, *_OF_EXPERTS, *_SINCE_1_3, "DeepseekV2", "Glm4MoeLite", "GraniteMoeHybrid")
)
"""Decoders that only vLLM serves among the released programs."""


class _Decoder(TypedDict):
    python: bool
    files: tuple[str, ...]
    gated: bool
    float32_residuals: bool
    fits_float16: bool


_DECODER = _Decoder(python=True, files=ENCODER_FILES, gated=True, float32_residuals=True, fits_float16=False)
_ENCODERS = (
    Architecture("BertModel", "embedder", python=True, files=ENCODER_FILES),
    *(
        Architecture(name, "embedder", python=True, files=ENCODER_FILES, reserved_positions=2)
        for name in ("XLMRobertaModel", "RobertaModel", "CamembertModel")
    ),
    Architecture("NomicBertModel", "embedder", python=True, files=ENCODER_FILES, tasks=NOMIC_TASKS, gated=True),
    Architecture("ModernBertModel", "embedder", python=True, files=ENCODER_FILES, gated=True, float32_residuals=True),
    Architecture("Gemma3TextModel", "embedder", tasks=NOMIC_TASKS, **_DECODER),
    Architecture("Qwen3Model", "embedder", tasks=SEARCH_TASKS, **_DECODER),
    Architecture(
        "ModernBertForSequenceClassification",
        "reranker",
        python=True,
        files=ENCODER_FILES,
        gated=True,
        float32_residuals=True,
    ),
    Architecture(
        "DebertaV2ForSequenceClassification", "reranker", python=True, files=ENCODER_FILES, relative_positions=True
    ),
    Architecture("BertForSequenceClassification", "reranker", python=True, files=ENCODER_FILES),
    *(
        Architecture(name, "reranker", python=True, files=ENCODER_FILES, reserved_positions=2)
        for name in ("XLMRobertaForSequenceClassification", "RobertaForSequenceClassification")
    ),
)
"""Encoders; a test compares the rows with the families that files/encoders registers."""

ALSO_ENCODERS = {
    ("Qwen3ForCausalLM", "embedder"): Architecture("Qwen3ForCausalLM", "embedder", tasks=SEARCH_TASKS, **_DECODER),
    ("Qwen3ForCausalLM", "reranker"): Architecture("Qwen3ForCausalLM", "reranker", **_DECODER),
}
"""Architectures of LLMs that are embedders or rerankers too, by the kind that an inventory declares."""

_MULTI_MODAL = (
    "CLIPModel",
    "FuyuForCausalLM",
    "Gemma3ForConditionalGeneration",
    "InternVLChatModel",
    "Kosmos2ForConditionalGeneration",
    "Llama4ForConditionalGeneration",
    "LlavaForConditionalGeneration",
    "LlavaNextForConditionalGeneration",
    "Mistral3ForConditionalGeneration",
    "MllamaForConditionalGeneration",
    "Phi3VForCausalLM",
    "Phi4MMForCausalLM",
    "Qwen2VLForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
)
_ENCODER_DECODER = (
    "BartForConditionalGeneration",
    "M2M100ForConditionalGeneration",
    "MBartForConditionalGeneration",
    "MT5ForConditionalGeneration",
    "PegasusForConditionalGeneration",
    "T5ForConditionalGeneration",
    "T5GemmaForConditionalGeneration",
    "WhisperForConditionalGeneration",
)

_UNCOUNTED = {
    "DeciLMForCausalLM": "layers with and without keys and values; its configuration is Python of the repository, "
    "and no code of a repository is run",
    "BambaForCausalLM": _STATES,
    "DeepseekV32ForCausalLM": "keys of an indexer beside the latent",
    "DeepseekV4ForCausalLM": "latents of several tokens together, keys of an indexer, and windows",
    "FalconH1ForCausalLM": _STATES,
    "FalconMambaForCausalLM": "states of a fixed size for each sequence",
    "GlmMoeDsaForCausalLM": "keys of an indexer beside the latent",
    "JambaForCausalLM": _STATES,
    "Lfm2ForCausalLM": "states of short convolutions beside the keys and values of some layers",
    "Lfm2MoeForCausalLM": "states of short convolutions beside the keys and values of some layers",
    "LongcatFlashForCausalLM": "two latents for each token and layer",
    "KimiLinearForCausalLM": "states of linear attention beside the latent of some layers",
    "MambaForCausalLM": "states of a fixed size for each sequence",
    "Mamba2ForCausalLM": "states of a fixed size for each sequence",
    "MiMoV2FlashForCausalLM": "more heads in layers with a window, and values narrower than keys",
    "MiniMaxM3ForCausalLM": "an index of sparse attention beside the keys and values of most layers",
    "MiniMaxM1ForCausalLM": "states of linear attention beside the keys and values of some layers",
    "NemotronHForCausalLM": _STATES,
    "Qwen3NextForCausalLM": "states of linear attention beside the keys and values of some layers",
    "RecurrentGemmaForCausalLM": "recurrent states beside windows of keys and values",
    "Zamba2ForCausalLM": _STATES,
}
"""Decoders whose cache is more than keys and values of every layer, with the kind of cache. Memory is not computed for
them, and their names are close to names of supported ones."""

ARCHITECTURES: dict[str, Architecture] = {
    row.name: row
    for row in (
        *_LLMS,
        *OF_VLLM,
        *_ENCODERS,
        *(Architecture(name, "multi-modal") for name in _MULTI_MODAL),
        *(Architecture(name, "encoder-decoder") for name in _ENCODER_DECODER),
        *(Architecture(name, "unserved", note=note) for name, note in _UNCOUNTED.items()),
    )
}


def architecture_as(name: str, kind: str) -> Architecture | None:
    return ALSO_ENCODERS.get((name, kind)) or ARCHITECTURES.get(name)
