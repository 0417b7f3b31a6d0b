"""Many more names that people serve in 2026: each is planned where a program of its release loads it, or refused.

Class names and kinds of files are published facts. Shapes were typed from memory of each family and sizes are nominal;
the configurations of Nemotron 3 and H, Kimi K2 and K2.7, GLM 5, Step 3.7, MiniMax M2.7, Gemma 4, DeepSeek V4, Qwen3.5
and Qwen3-32B in static FP8 are those of a public collection (aiconfigurator). vLLM's verdicts are those of the
registry, the models and the configurations in the wheel of 0.26.0 (read 2026-11-28). None of these names was in a test
before. Half of the file's lines are rows, one for each name.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from deploy.catalog import ARCHITECTURES
from deploy.catalog.architectures import OF_VLLM
from deploy.catalog.runtimes import VLLM_ARCHITECTURES
from deploy.models.config_json import checkpoint_of
from deploy.models.memory import kv_bytes_per_token
from deploy.models.runtimes import image_for, runtime_instead
from deploy.planning.fit import Fit, FitOptions, fit_of
from deploy.refusals.errors import Refusal, Refusals
from deploy.spec import LLM, Embedder, Model, Reranker
from tests.unit.published import locked
from tests.unit.samples import AROUND

ENTRIES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("published_served.json").read_text(encoding="utf-8")
)


class Verdict(NamedTuple):
    """The declared class, the kind of Triton's only refusal ("" if planned), that of vLLM, the card, and GPUs.

    `beside` is None for a model that Triton serves or nothing can.
    """

    declared: type[Model]
    kind: str = ""
    beside: str | None = None
    card: str = "h100-80"
    gpus: int = 1


PLANNED, BESIDE, FORMAT = (Verdict(LLM, kind, "" if kind else None) for kind in ("", "no-pytorch", "format-not-read"))
SEES = Verdict(LLM, "multi-modal")
VERDICTS = {
    "allenai/Olmo-3-7B-Instruct": BESIDE,
    "arcee-ai/Trinity-Mini": BESIDE,
    "BAAI/bge-reranker-v2-gemma": Verdict(Reranker, "wrong-kind"),
    "baidu/ERNIE-4.5-21B-A3B-PT": BESIDE,
    "bigcode/starcoder2-15b": BESIDE,
    "ByteDance-Seed/Seed-OSS-36B-Instruct": BESIDE._replace(card="h200-141"),
    "CohereLabs/c4ai-command-a-03-2025": BESIDE._replace(card="h200-141", gpus=4),
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": PLANNED._replace(gpus=4),
    "deepseek-ai/DeepSeek-V2-Lite-Chat": BESIDE,
    "facebook/opt-6.7b": Verdict(LLM, "no-checkpoint"),
    "GSAI-ML/LLaDA-8B-Instruct": Verdict(LLM, "unknown-architecture"),
    "HuggingFaceTB/SmolLM3-3B": BESIDE._replace(card="l4-24"),
    "ibm-granite/granite-3.3-8b-instruct": BESIDE._replace(card="a100-40"),
    "ibm-granite/granite-4.0-h-small": Verdict(LLM, "unknown-cache"),
    "ibm-granite/granite-embedding-english-r2": Verdict(Embedder),
    "inclusionAI/Ling-mini-2.0": Verdict(LLM, "unknown-architecture"),
    "intfloat/e5-mistral-7b-instruct": Verdict(Embedder, "unknown-architecture"),
    "LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct": Verdict(LLM, "unknown-architecture"),
    "LGAI-EXAONE/K-EXAONE-236B-A23B": BESIDE._replace(card="h200-141", gpus=8),
    "lightonai/GTE-ModernColBERT-v1": Verdict(Embedder, "step-not-computed"),
    "LiquidAI/LFM2-8B-A1B": Verdict(LLM, "unknown-cache"),
    "microsoft/Phi-4-mini-instruct": PLANNED,
    "mistralai/Devstral-Small-2507": Verdict(LLM, "no-tokenizer"),
    "mlx-community/Qwen3-8B-4bit": FORMAT._replace(beside="format-not-read"),
    "naver/splade-v3": Verdict(Embedder, "unknown-architecture"),
    "NousResearch/Hermes-4-14B": PLANNED,
    "onnx-community/Qwen3-0.6B-ONNX": Verdict(LLM, "no-checkpoint"),
    "Qwen/Qwen2.5-Coder-7B-Instruct-AWQ": FORMAT._replace(card="a100-40"),
    "Qwen/Qwen3-30B-A3B-GPTQ-Int4": FORMAT,
    "RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8": FORMAT,
    "sentence-transformers/all-mpnet-base-v2": Verdict(Embedder, "unknown-architecture"),
    "Skywork/Skywork-Reward-V2-Llama-3.1-8B": Verdict(Reranker, "unknown-architecture"),
    "Snowflake/snowflake-arctic-embed-m-v2.0": Verdict(Embedder, "unknown-architecture"),
    "swiss-ai/Apertus-8B-Instruct-2509": BESIDE,
    "tencent/Hunyuan-A13B-Instruct": Verdict(LLM, "no-tokenizer", card="h200-141", gpus=4),
    "tiiuae/Falcon3-10B-Instruct": PLANNED,
    "tomaarsen/Qwen3-Reranker-0.6B-seq-cls": Verdict(Reranker, "unknown-architecture"),
    "turboderp/Qwen3-8B-exl3": FORMAT._replace(beside="format-not-read"),
    "zai-org/GLM-4-9B-0414": BESIDE,
    "zai-org/GLM-4.7-Flash": BESIDE,
    "01-ai/Yi-1.5-34B-Chat": Verdict(LLM, "beyond-positions"),  # 4,096 positions; the default context is 8,192
    "Alibaba-NLP/gte-Qwen2-7B-instruct": Verdict(Embedder, "wrong-kind"),
    "allenai/Olmo-3.1-32B-Instruct": BESIDE,
    "cardiffnlp/twitter-xlm-roberta-base-sentiment": Verdict(Reranker, "several-labels"),
    "colbert-ir/colbertv2.0": Verdict(Embedder, "unknown-architecture"),
    "google/gemma-3n-E4B-it": Verdict(LLM, "multi-modal"),
    "Intel/Qwen3-14B-int4-AutoRound": FORMAT,
    "internlm/internlm3-8b-instruct": Verdict(LLM, "no-tokenizer"),
    "meta-llama/Llama-Prompt-Guard-2-86M": Verdict(Reranker, "several-labels"),
    "microsoft/Phi-3.5-MoE-instruct": BESIDE._replace(card="h200-141"),
    "mistralai/Ministral-3-8B-Instruct-2512": Verdict(LLM, "multi-modal"),
    "mixedbread-ai/mxbai-rerank-large-v2": Verdict(Reranker, "wrong-kind"),
    "moonshotai/Kimi-K2-Thinking": Verdict(LLM, "no-tokenizer", card="h200-141", gpus=8),
    "nvidia/Llama-3.1-70B-Instruct-FP8": PLANNED._replace(gpus=2),
    "nvidia/Llama-3_1-Nemotron-Ultra-253B-v1": Verdict(LLM, "unknown-cache", card="h200-141", gpus=8),
    "nvidia/llama-embed-nemotron-8b": Verdict(Embedder, "unknown-architecture"),
    "opensearch-project/opensearch-neural-sparse-encoding-doc-v3-distill": Verdict(Embedder, "unknown-architecture"),
    "RedHatAI/Qwen3-32B-NVFP4": FORMAT,
    "tiiuae/Falcon-H1-34B-Instruct": Verdict(LLM, "unknown-cache"),
    "unsloth/Qwen3-14B-unsloth-bnb-4bit": FORMAT._replace(beside="format-not-read"),
    "amd/Llama-3.3-70B-Instruct-FP8-KV": FORMAT._replace(gpus=2),
    "BAAI/bge-multilingual-gemma2": Verdict(Embedder, "unknown-architecture"),
    "baidu/ERNIE-4.5-VL-28B-A3B-Thinking": SEES,
    "black-forest-labs/FLUX.1-schnell": Verdict(LLM, "no-checkpoint"),
    "cross-encoder/nli-deberta-v3-base": Verdict(Reranker, "several-labels"),
    "cyankiwi/Qwen3-30B-A3B-Instruct-2507-AWQ-4bit": FORMAT,
    "deepseek-ai/DeepSeek-V3.1-Terminus": PLANNED._replace(card="h200-141", gpus=8),
    "google/gemma-2-27b-it": PLANNED._replace(gpus=2),  # as an engine
    "google/siglip2-so400m-patch14-384": Verdict(Embedder, "multi-modal"),
    "hexgrad/Kokoro-82M": Verdict(LLM, "no-checkpoint"),
    "ibm-granite/granite-4.0-micro": BESIDE,
    "ibm-granite/granite-embedding-reranker-english-r2": Verdict(Reranker),
    "inclusionAI/Ring-flash-2.0": Verdict(LLM, "unknown-architecture", gpus=4),
    "jinaai/jina-reranker-v3": Verdict(Reranker, "unknown-architecture"),
    "lmsys/vicuna-13b-v1.5": Verdict(LLM, "no-checkpoint"),
    "meta-llama/Llama-3.1-405B-Instruct-FP8": FORMAT._replace(beside="format-not-read", card="h200-141", gpus=8),
    "minishlab/potion-multilingual-128M": Verdict(Embedder, "unknown-architecture"),
    "mistralai/Mistral-Nemo-Instruct-2407": PLANNED,
    "mistralai/Voxtral-Mini-3B-2507": SEES,
    "mixedbread-ai/mxbai-edge-colbert-v0-17m": Verdict(Embedder, "step-not-computed"),
    "mlx-community/gpt-oss-20b-MXFP4-Q8": FORMAT._replace(beside="format-not-read"),
    "naver/splade-cocondenser-ensembledistil": Verdict(Embedder, "unknown-architecture"),
    "nomic-ai/modernbert-embed-base": Verdict(Embedder),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4": Verdict(LLM, "unknown-cache", card="b200-180"),
    "openai/gpt-oss-safeguard-20b": PLANNED,
    "openai/whisper-large-v3-turbo": Verdict(LLM, "encoder-decoder"),
    "Qwen/Qwen3-4B-Thinking-2507": PLANNED,
    "Qwen/Qwen3-Coder-Next": Verdict(LLM, "unknown-cache", gpus=4),
    "Qwen/Qwen3-Omni-30B-A3B-Instruct": SEES._replace(gpus=2),
    "ServiceNow-AI/Apriel-1.5-15b-Thinker": SEES,
    "Skywork/Skywork-Reward-V2-Qwen3-8B": Verdict(Reranker, "unknown-architecture"),
    "tencent/Hunyuan-7B-Instruct": BESIDE,
    "turboderp/Llama-3.1-8B-Instruct-exl2": Verdict(LLM, "no-checkpoint"),
    "unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF": Verdict(LLM, "no-checkpoint"),
    "upstage/Solar-Open-100B": Verdict(LLM, "unknown-architecture", card="h200-141", gpus=4),
    "utter-project/EuroLLM-9B-Instruct": Verdict(LLM, "beyond-positions"),
    "zai-org/GLM-4.6": PLANNED._replace(card="h200-141", gpus=8),
    "cross-encoder/ettin-reranker-150m-v1": Verdict(Reranker),
    "deepseek-ai/DeepSeek-V4-Pro": Verdict(LLM, "unknown-cache", card="b200-180", gpus=8),
    "dslim/bert-base-NER": Verdict(Embedder, "unknown-architecture"),
    "facebook/sam-audio-large": Verdict(LLM, "no-checkpoint"),
    "ggerganov/whisper.cpp": Verdict(LLM, "no-checkpoint"),
    "google/gemma-3n-E2B-it-litert-lm": Verdict(LLM, "no-checkpoint"),
    "ibm-granite/granite-4.0-350m": BESIDE,
    "moonshotai/Kimi-K2-Instruct-0905": Verdict(LLM, "no-tokenizer", card="h200-141", gpus=8),
    "nvidia/Gemma-4-31B-IT-NVFP4": SEES._replace(card="b200-180"),
    "nvidia/Kimi-K2.7-Code-NVFP4": SEES._replace(card="b200-180", gpus=8),
    "nvidia/MiniMax-M2.7-NVFP4": BESIDE._replace(card="b200-180", gpus=2),
    "nvidia/Nemotron-H-56B-Base-8K": Verdict(LLM, "unknown-cache", gpus=2),
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8": Verdict(LLM, "unknown-cache", card="h200-141", gpus=8),
    "Qwen/Qwen3-32B-FP8-Static-PerTensor": PLANNED,
    "Qwen/Qwen3-Reranker-4B": Verdict(Reranker, "states-beyond-float16"),  # its decoder needs dtype="bfloat16"
    "Qwen/Qwen3.5-35B-A3B": SEES,
    "stepfun-ai/Step-3.7-Flash-FP8": Verdict(LLM, "unknown-architecture", gpus=4),
    "Systran/faster-whisper-large-v3": Verdict(LLM, "no-checkpoint"),
    "timm/vit_base_patch16_siglip_384.webli": Verdict(Embedder, "no-checkpoint"),
    "zai-org/GLM-5-FP8": Verdict(LLM, "unknown-cache", card="h200-141", gpus=8),
    "Qwen/Qwen3-8B-Base": PLANNED,
    "meta-llama/Llama-3.1-8B": PLANNED,
    "unsloth/gpt-oss-20b-BF16": PLANNED,
    "RedHatAI/gpt-oss-120b-FP8-dynamic": FORMAT._replace(card="h200-141", gpus=2),
    "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B": Verdict(LLM, "unknown-architecture"),
    "FasterDecoding/medusa-vicuna-7b-v1.3": Verdict(LLM, "no-checkpoint"),
    "mistralai/Mistral-7B-Instruct-v0.3": PLANNED,
    "mistralai/Mistral-Large-3-675B-Instruct-2512": Verdict(LLM, "no-checkpoint", card="h200-141", gpus=8),
    "mistralai/Devstral-2-123B-Instruct-2512": BESIDE._replace(card="h200-141", gpus=2),
    "nvidia/Llama-3.1-8B-Instruct-NVFP4": PLANNED._replace(card="rtx-pro-6000-96"),
    "nvidia/Qwen3-Next-80B-A3B-Instruct-NVFP4": Verdict(LLM, "unknown-cache", card="b200-180"),
    "tiiuae/Falcon-E-3B-Instruct": FORMAT._replace(beside="format-not-read"),
    "microsoft/bitnet-b1.58-2B-4T": Verdict(LLM, "unknown-architecture"),
    "mobiuslabsgmbh/Llama-3.1-8b-instruct_4bitgs64_hqq_calib": Verdict(LLM, "no-checkpoint"),
    "pytorch/Qwen3-8B-INT4": Verdict(LLM, "no-checkpoint"),
    "ISTA-DASLab/Meta-Llama-3.1-70B-Instruct-AQLM-PV-2Bit-1x16": FORMAT._replace(beside="format-not-read"),
    "OPEA/Qwen2.5-72B-Instruct-int4-sym-inc": FORMAT._replace(beside="format-not-read"),
    "Qwen/Qwen3-4B-AWQ": FORMAT._replace(card="l4-24"),
    "JunHowie/Qwen3-235B-A22B-Instruct-2507-GPTQ-Int4": FORMAT._replace(gpus=2),
    "QuantTrio/DeepSeek-V3.1-AWQ": FORMAT._replace(card="h200-141", gpus=8),
    "unsloth/Llama-3.3-70B-Instruct-bnb-4bit": FORMAT._replace(beside="format-not-read"),
    "ai21labs/AI21-Jamba-Mini-1.7": Verdict(LLM, "unknown-cache", gpus=2),
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2-FP8": Verdict(LLM, "unknown-cache"),
    "allenai/Olmo-Hybrid-7B": Verdict(LLM, "unknown-architecture"),
    "EssentialAI/rnj-1-instruct": Verdict(LLM, "unknown-architecture"),
    "zai-org/GLM-4.5-Air-Base": PLANNED._replace(card="h200-141", gpus=2),
    "cerebras/GLM-4.7-REAP-218B-A32B-FP8": FORMAT._replace(card="h200-141", gpus=4),
    "Qwen/Qwen3-Embedding-8B": Verdict(Embedder, "states-beyond-float16"),
    "codefuse-ai/F2LLM-v2-4B": Verdict(Embedder, "states-beyond-float16"),
    "zeroentropy/zerank-1": Verdict(Reranker, "code-of-a-repository"),
    "ContextualAI/ctxl-rerank-v2-instruct-multilingual-2b": Verdict(Reranker, "states-beyond-float16"),
    "BAAI/bge-code-v1": Verdict(Embedder, "unknown-architecture"),
    "intfloat/multilingual-e5-small": Verdict(Embedder),
    "mixedbread-ai/mxbai-embed-large-v1": Verdict(Embedder),
    "sentence-transformers/multi-qa-distilbert-cos-v1": Verdict(Embedder, "unknown-architecture"),
    "cross-encoder/ms-marco-electra-base": Verdict(Reranker, "unknown-architecture"),
    "cross-encoder/stsb-roberta-large": Verdict(Reranker),
    "Alibaba-NLP/gte-large-en-v1.5": Verdict(Embedder, "unknown-architecture"),
    "nvidia/llama-nemotron-rerank-1b-v2": Verdict(Reranker, "unknown-architecture"),
    "nvidia/NV-Embed-v2": Verdict(Embedder, "unknown-architecture"),
    "Qwen/Qwen3-VL-Embedding-2B": Verdict(Embedder, "multi-modal"),
    "my-org/llama-3.1-8b-merged-lora": PLANNED,
    "my-org/llama-3.1-8b-nvfp4-inline": FORMAT._replace(card="b200-180"),  # without hf_quant_config.json
    "deepseek-ai/DeepSeek-OCR": SEES,
    "Qwen/Qwen3-Reranker-8B": Verdict(Reranker, "states-beyond-float16"),
    "Qwen/Qwen3-0.6B": PLANNED._replace(card="l4-24"),
    "Qwen/Qwen3-235B-A22B": PLANNED._replace(card="h200-141", gpus=8),
    "deepseek-ai/DeepSeek-V3": PLANNED._replace(card="h200-141", gpus=8),
    "nvidia/DeepSeek-V3.2-NVFP4": Verdict(LLM, "unknown-cache", card="b200-180", gpus=8),
    "nvidia/DeepSeek-V4-Flash-NVFP4": Verdict(LLM, "unknown-cache", card="b200-180", gpus=8),
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": Verdict(LLM, "unknown-cache", card="b200-180"),
    "nvidia/MiniMax-M3-NVFP4": SEES._replace(card="b200-180", gpus=8),
    "nvidia/MiniMax-M2.5-NVFP4": BESIDE._replace(card="b200-180", gpus=2),
    "zai-org/GLM-5.1": Verdict(LLM, "unknown-cache", card="b300-270", gpus=8),
    "mistralai/Mixtral-8x7B-v0.1": PLANNED._replace(card="h200-141", gpus=2),
    "Qwen/Qwen3-VL-8B-Instruct": SEES,
    "nvidia/Kimi-K2.5-NVFP4": SEES._replace(card="b200-180", gpus=8),
    "meituan-longcat/LongCat-Flash-Lite": Verdict(LLM, "unknown-architecture", card="h200-141", gpus=2),
    "baidu/ERNIE-4.5-0.3B-PT": Verdict(LLM, "unknown-architecture"),
    "RedHatAI/Llama-4-Scout-17B-16E-Instruct-quantized.w4a16": SEES,
    "RedHatAI/Qwen3-8B-FP8-dynamic": FORMAT,
    "RedHatAI/Qwen3-30B-A3B-FP8-block": FORMAT,
    "nvidia/Phi-4-reasoning-plus-FP8": PLANNED,
    "nvidia/Qwen3-30B-A3B-FP4": PLANNED._replace(card="rtx-pro-6000-96"),
    "cyankiwi/GLM-4.6-AWQ-4bit": FORMAT._replace(card="h200-141", gpus=4),
    "cyankiwi/Qwen3-Next-80B-A3B-Instruct-AWQ-4bit": Verdict(LLM, "unknown-cache"),
    "mlx-community/Qwen3-4B-4bit-old": FORMAT._replace(beside="format-not-read"),
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8": FORMAT._replace(gpus=2),
    "Intel/DeepSeek-R1-0528-int4-AutoRound": FORMAT._replace(card="h200-141", gpus=4),
    "unsloth/Qwen3-8B-TorchAO-FP8": FORMAT._replace(beside="format-not-read"),
    "mobiuslabsgmbh/Llama-3.1-8B-HQQ-safetensors": FORMAT._replace(beside="format-not-read"),
    "nvidia/Llama-3.1-8B-Instruct-INT4-AWQ": FORMAT._replace(beside="format-not-read"),
    "amd/DeepSeek-R1-0528-MXFP4": FORMAT._replace(beside="format-not-read", card="h200-141", gpus=4),
    "pytorch/Phi-4-mini-instruct-FP8": Verdict(LLM, "no-checkpoint"),
    "Qwen/QwQ-32B": PLANNED._replace(card="h200-141"),
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": PLANNED._replace(card="l4-24"),
    "microsoft/Phi-4-multimodal-instruct": SEES,
    "microsoft/Phi-4-mini-flash-reasoning": Verdict(LLM, "unknown-architecture"),
    "google/gemma-3-270m-it": PLANNED._replace(card="l4-24"),
    "google/t5gemma-2b-2b-ul2": Verdict(LLM, "encoder-decoder"),
    "LiquidAI/LFM2-2.6B": Verdict(LLM, "unknown-cache"),
    "moonshotai/Moonlight-16B-A3B-Instruct": Verdict(LLM, "no-tokenizer"),
    "tencent/Hunyuan-MT-7B": BESIDE,
    "rednote-hilab/dots.llm1.inst": Verdict(LLM, "unknown-architecture", card="h200-141", gpus=4),
    "xai-org/grok-2": Verdict(LLM, "no-checkpoint", card="h200-141", gpus=8),
    "CohereLabs/c4ai-command-r7b-12-2024": BESIDE,
    "nvidia/Nemotron-Cascade-14B-Thinking": PLANNED,
    "gaotang/RM-R1-Qwen2.5-Instruct-7B": PLANNED,  # it writes its judgement
    "nvidia/Llama-3.1-Nemotron-70B-Reward-HF": Verdict(LLM, "wrong-kind", gpus=4),
    "OpenAssistant/reward-model-deberta-v3-large-v2": Verdict(Reranker, "wrong-kind", card="l4-24"),
    "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3": Verdict(LLM, "unknown-architecture"),
    "z-lab/Qwen3-8B-DFlash-b16": Verdict(LLM, "unknown-architecture"),
    "Qwen/Qwen3-ASR-1.7B": SEES,
    "PaddlePaddle/PaddleOCR-VL": SEES,
    "nvidia/parakeet-tdt-0.6b-v3": Verdict(LLM, "no-checkpoint"),
    "stabilityai/stable-diffusion-3.5-large": Verdict(LLM, "no-checkpoint"),
    "microsoft/VibeVoice-1.5B": Verdict(LLM, "unknown-architecture"),
    "gliner-community/gliner_large-v2.5": Verdict(Embedder, "no-checkpoint", card="l4-24"),
    "sentence-transformers/all-distilroberta-v1": Verdict(Embedder, card="l4-24"),
    "sentence-transformers/paraphrase-albert-small-v2": Verdict(Embedder, "unknown-architecture", card="l4-24"),
    "ibm-granite/granite-embedding-278m-multilingual": Verdict(Embedder, card="l4-24"),
    "jinaai/jina-embeddings-v2-base-en": Verdict(Embedder, "unknown-architecture", card="l4-24"),
    "jinaai/jina-colbert-v2": Verdict(Embedder, "unknown-architecture", card="l4-24"),
    "microsoft/harrier-oss-v1-270m": Verdict(Embedder, "step-not-computed", card="l4-24"),
    "microsoft/harrier-oss-v1-0.6b": Verdict(Embedder, "states-beyond-float16", card="l4-24"),
    "nreimers/mmarco-mMiniLMv2-L12-H384-v1": Verdict(Reranker, card="l4-24"),
    "nomic-ai/CodeRankEmbed": Verdict(Embedder, card="l4-24"),
    "lightonai/modernbert-embed-large": Verdict(Embedder, card="l4-24"),
    "facebook/bart-large-mnli": Verdict(Reranker, "unknown-architecture", card="l4-24"),
    "tasksource/ModernBERT-large-nli": Verdict(Reranker, "several-labels", card="l4-24"),
    "LiquidAI/LFM2-ColBERT-350M": Verdict(Embedder, "unknown-architecture", card="l4-24"),
}


def fitted(name: str, runtime: str = "") -> Fit | list[Refusal]:
    """The fit of a repository, declared only by its name; or every refusal of it."""
    verdict = VERDICTS[name]
    try:
        around = replace(AROUND, locked={name: locked(name, ENTRIES)})
        wish = FitOptions(gpus=verdict.gpus, runtime=runtime)
        return fit_of(verdict.card, (verdict.declared(name),), "26.07", around, wish)
    except Refusals as several:
        return list(several.problems)
    except Refusal as single:
        return [single]


def refused(name: str, runtime: str = "") -> list[Refusal]:
    answer = fitted(name, runtime)
    return answer if isinstance(answer, list) else []


def test_every_name_has_a_verdict() -> None:
    assert sorted(VERDICTS) == sorted(ENTRIES)


@pytest.mark.parametrize("name", VERDICTS)
def test_a_name_is_planned_or_refused_for_this_reason_alone(name: str) -> None:
    problems = refused(name)
    assert [problem.kind for problem in problems] == [kind for kind in [VERDICTS[name].kind] if kind]
    assert all({"where", "seen", "wanted"} <= problem.facts.keys() and problem.attempt for problem in problems)
    assert not any("did you mean" in problem.attempt for problem in problems)


@pytest.mark.parametrize("name", [name for name, verdict in VERDICTS.items() if verdict.beside is not None])
def test_vllm_beside_triton_has_its_verdict(name: str) -> None:
    beside = VERDICTS[name].beside
    assert [problem.kind for problem in refused(name, "vllm")] == [kind for kind in [beside] if kind]
    if not beside:
        assert refused(name)[0].attempt.startswith('runtime="vllm", image="vllm/vllm-openai:v0.26.0"')


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lightonai/GTE-ModernColBERT-v1", "a vector for each, none for a text"),
        ("naver/splade-v3", "sparse retrieval"),
        ("LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct", "code of its repository"),
        ("Snowflake/snowflake-arctic-embed-m-v2.0", "code of its repository"),
        ("onnx-community/Qwen3-0.6B-ONNX", "ONNX"),
        ("mlx-community/Qwen3-8B-4bit", "MLX"),
        ("turboderp/Qwen3-8B-exl3", "ExLlama"),
        ("BAAI/bge-reranker-v2-gemma", "do not compute GemmaForCausalLM"),
        ("black-forest-labs/FLUX.1-schnell", "a pipeline of diffusers"),
        ("hexgrad/Kokoro-82M", "pickles"),
        ("amd/Llama-3.3-70B-Instruct-FP8-KV", "Quark"),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "--allow-deprecated-quantization"),
        ("Systran/faster-whisper-large-v3", "CTranslate2"),
        ("timm/vit_base_patch16_siglip_384.webli", "another library than transformers"),
        ("minishlab/potion-multilingual-128M", "a table's rows"),
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "speculative=Eagle("),
    ],
)
def test_a_refusal_says_what_a_repository_is(name: str, words: str) -> None:
    (problem,) = refused(name)
    assert words in f"{problem.problem} {problem.facts['seen']}"


def test_bitsandbytes_is_refused_on_vllm_with_the_limits_of_its_loader() -> None:
    """vLLM reads it on one GPU; the refusal may not say that it never does."""
    (problem,) = refused("unsloth/Llama-3.3-70B-Instruct-bnb-4bit", "vllm")
    assert "only on one GPU" in problem.problem and "does not read" not in problem.problem


@pytest.mark.parametrize(
    ("name", "is_noted"),
    [("ContextualAI/ctxl-rerank-v2-instruct-multilingual-2b", True), ("Qwen/Qwen3-Reranker-8B", False)],
)
def test_a_decoder_that_may_rank_by_other_words_is_noted(name: str, is_noted: bool) -> None:
    """Its config.json is that of Qwen3-Reranker, and its scores are not."""
    around = replace(AROUND, locked={name: locked(name, ENTRIES)})
    fit = fit_of("h100-80", (Reranker(name, dtype="bfloat16"),), "26.07", around)
    assert any("the words yes and no" in note for note in fit.plan.warnings) == is_noted


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("allenai/Olmo-3-7B-Instruct", 2 * 32 * 32 * 128 * 2),
        ("baidu/ERNIE-4.5-21B-A3B-PT", 2 * 28 * 4 * 128 * 2),
        ("ByteDance-Seed/Seed-OSS-36B-Instruct", 2 * 64 * 8 * 128 * 2),
        ("CohereLabs/c4ai-command-a-03-2025", 2 * 64 * 8 * 128 * 2),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 27 * (512 + 64) * 2),
        ("HuggingFaceTB/SmolLM3-3B", 2 * 36 * 4 * 128 * 2),
        ("tencent/Hunyuan-A13B-Instruct", 2 * 32 * 8 * 128 * 2),
        ("zai-org/GLM-4-9B-0414", 2 * 40 * 2 * 128 * 2),
        ("zai-org/GLM-4.7-Flash", 47 * (512 + 64) * 2),
    ],
)
def test_a_token_takes_the_keys_and_values_of_every_layer(name: str, size: int) -> None:
    """layers x heads of keys x their width, as vLLM's own model allocates them; DeepSeek's latent once."""
    shape = checkpoint_of(ENTRIES[name]["config"], 1, name)
    assert kv_bytes_per_token(shape, "bfloat16") == size


def test_numbers_for_each_layer_count_as_their_largest() -> None:
    shape = checkpoint_of(ENTRIES["tencent/Hunyuan-A13B-Instruct"]["config"], 1, "hunyuan")
    assert (shape.experts, shape.active_experts, shape.intermediate) == (64, 8, 3072)


def test_a_nomic_bert_has_the_positions_of_its_training() -> None:
    """Its encoder refuses more than these 2,048, and not only more than its `n_positions` of 8,192."""
    assert checkpoint_of(ENTRIES["nomic-ai/CodeRankEmbed"]["config"], 1, "nomic").positions == 2048


@pytest.mark.parametrize(("layers_have", "heads"), [({"multi_query": True}, 1), ({"num_kv_heads": 8}, 8)])
def test_falcon_s_own_names_of_its_heads_are_read(layers_have: dict[str, Any], heads: int) -> None:
    """Falcon 7B and 40B: counted with all heads of queries, a cache would be 71 and 16 times as large."""
    config = {"architectures": ["FalconForCausalLM"], "hidden_size": 4544, "num_attention_heads": 71, **layers_have}
    config |= {"num_hidden_layers": 32, "vocab_size": 65_024, "max_position_embeddings": 2048}
    assert checkpoint_of(config, 1, "falcon").kv_heads == heads


def test_decoders_of_vllm_alone_are_offered_its_release_before_a_candidate() -> None:
    """Release candidates of TensorRT-LLM 1.3 have some of these decoders, and no release has."""
    assert {row.name for row in OF_VLLM} <= VLLM_ARCHITECTURES
    assert {runtime_instead(LLM("a/b"), row, "1.2.1") for row in OF_VLLM} == {"vllm"}
    image = image_for("trtllm-serve", ARCHITECTURES["Cohere2ForCausalLM"])
    model = LLM("a/b", runtime="trtllm-serve", image=image)
    around = replace(AROUND, locked={"a/b": locked("CohereLabs/c4ai-command-a-03-2025", ENTRIES)})
    assert fit_of("h200-141", (model,), "26.07", around, FitOptions(gpus=4)).cache_tokens > 500_000
