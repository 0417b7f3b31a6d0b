"""Generative models, as an operator declares them: precision, parallelism, cache, engine, speculation, adapters, trust.

Words are TensorRT-LLM's own: the precisions are the `--qformat` values of its quantize.py and the names in its convert
scripts, the schedulers those of its batch manager. The plan judges the support of a model, a release and a GPU.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from deploy.spec.encoders import Path
from deploy.spec.sources import Checkpoint, Weights, completed

Precision = Literal[
    "auto",
    "float16",
    "bfloat16",
    "fp8",
    "fp8_rowwise",
    "int8_sq",
    "int8_wo",
    "int4_wo",
    "int4_awq",
    "w4a8_awq",
    "int4_gptq",
    "nvfp4",
    "mxfp4",
]
"""`auto` is the precision of the checkpoint. `fp8_rowwise` is quantize.py's `fp8_pc_pt`."""


@dataclass(frozen=True, kw_only=True)
class KVCache:
    """The key/value cache of one LLM as a number of tokens for all sequences; None takes the remaining memory.

    `host_mib` of pinned host memory take blocks that are evicted from the GPU; 0 offloads nothing. `per_tenant`: no
    request can use, or detect by its speed, cached blocks of another request; for reuse, give each tenant a server.
    """

    tokens: int | None = None
    dtype: Literal["auto", "bfloat16", "float16", "fp8", "int8"] = "auto"
    reuse: bool | None = None
    per_tenant: bool = False
    host_mib: int = 0


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """The split of a model over GPUs. `tensor=0` means every GPU of its server, divided by `pipeline`.

    `expert` splits the experts of a tensor-parallel group among its GPUs, so it divides `tensor`; 0 leaves it to the
    release's default.
    """

    tensor: int = 0
    pipeline: int = 1
    expert: int = 0
    hosts: tuple[str, ...] = ()
    """Names of the hosts that serve the model together, each with a server of this name and as many GPUs; the first
    one leads and answers. Empty: the host serves it alone."""
    port: int = 29_500
    """The first of three ports of a group of hosts: its members' own, the leader's answers, and the ranks' store."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Texts from which a quantisation measures activations: a local directory in the format of `datasets`."""

    directory: str
    samples: int = 512


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Speculation with a smaller model that proposes `tokens` tokens for the target to confirm."""

    checkpoint: str | Checkpoint
    weights: Weights
    tokens: int = 4


@dataclass(frozen=True, kw_only=True)
class Medusa:
    """Speculation with extra heads on the target, trained for it. `choices` is its tree, as Medusa writes it."""

    weights: Weights
    heads: int = 4
    tokens: int = 63
    choices: str = ""


@dataclass(frozen=True, kw_only=True)
class Eagle:
    """Speculation with an EAGLE head trained for the target. `choices` is its tree; empty means the release's own
    tree."""

    weights: Weights
    tokens: int = 63
    choices: str = ""


@dataclass(frozen=True, kw_only=True)
class Lookahead:
    """Speculation without another model: n-grams of the sequence itself. The sizes are limits for requests."""

    window: int = 4
    ngram: int = 3
    verification: int = 4


@dataclass(frozen=True, kw_only=True)
class ReDrafter:
    """Speculation with Apple's recurrent drafter, trained for the target."""

    weights: Weights
    beams: int = 5
    tokens: int = 5


Speculative = Draft | Medusa | Eagle | Lookahead | ReDrafter


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A LoRA adapter; a request names it, and passes `task_id` if an engine serves it."""

    name: str
    task_id: int
    weights: Weights


@dataclass(frozen=True, kw_only=True)
class LoRA:
    """Adapters beside one base model. `host_mib` caches adapters in host memory, `gpu_mib` on each GPU."""

    adapters: tuple[Adapter, ...]
    max_rank: int = 64
    target_modules: tuple[str, ...] = ("attn_q", "attn_k", "attn_v")
    host_mib: int = 1024
    gpu_mib: int = 512


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Settings that are compiled into a TensorRT engine besides the model's own limits; no run-time setting is here.

    `checkpoint="trtllm"` means that the weights are a finished TensorRT-LLM checkpoint, which needs no conversion.
    `options` are other `trtllm-build` flags by exact name (`{"reduce_fusion": "enable"}`), judged against the release.
    """

    checkpoint: Literal["hub", "trtllm"] = "hub"
    max_input_len: int = 0
    """Largest prompt in tokens; 0: as long as `max_seq_len` allows."""
    max_beam_width: int = 1
    context_logits: bool = False
    generation_logits: bool = False
    options: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Prompts that an LLM answers before it serves, greedily and with a fixed seed. JSON lines on the control machine.

    An engine answers them before it is signed, and is compared with its checkpoint. Any other LLM answers them during
    its swap, before clients reach it, and is compared with the earlier LLM of its name; its tasks are sampled. Below
    the limits the swap restores the earlier LLM.

    `answers`, for engines alone, has `{"prompt", "tokens"}` per line; if it is empty, the checkpoint itself answers
    first, through the PyTorch backend of the same image. At least `equal_percent` of all tokens have to be equal; 0
    leaves the verdict to the tasks. `tasks` has `{"prompt", "expected"}` (a regular expression) per line, of which
    `minimum_percent` have to be met.

    Every compiled LLM and every promotion needs a replay or a reason against one: `Replay.none(reason="…")` is in the
    plan, and signed with the engine.
    """

    prompts: str = ""
    answers: str = ""
    max_tokens: int = 64
    equal_percent: float = 90.0
    tasks: str = ""
    minimum_percent: float = 0.0
    judged: bool = True
    reason: str = ""
    """The reason why no answers are judged; only with `Replay.none`."""

    @classmethod
    def none(cls, *, reason: str) -> Replay:
        """An engine that is signed without a comparison of its answers; `reason` justifies that."""
        return cls(judged=False, reason=reason)


@dataclass(frozen=True)
class LLM:
    """A generative model. `source` replaces `checkpoint` and `weights`: a hub name (`Qwen/Qwen3-32B`, or with a commit,
    tag or branch `Qwen/Qwen3-32B@main`) that `enginehouse pin` locks, or a directory (`./weights/mine`). Without it
    `checkpoint` is a name of the catalog or a `Checkpoint`.

    `max_seq_len` is prompt and answer together, `max_num_tokens` the tokens of one iteration. `chunked_prefill` is also
    called chunked context. `guided_decoding` lets a request ask for JSON, a regular expression or a grammar.
    `max_batch_size` requests run at once and `max_queue_size` wait; further requests are refused (UNAVAILABLE).
    `tool_parser` and `reasoning_parser` say, in vLLM's names, how a gateway reads the answers; `auto` means the parsers
    of the catalog's row; without a parser of tool calls a model is offered no tools. `runtime` is the program that
    serves it: a model of Triton, or `vllm serve` or `trtllm-serve` in a container of its own on the GPUs of its server.
    """

    source: str = ""
    _: KW_ONLY
    name: str = ""
    checkpoint: str | Checkpoint = ""
    weights: Weights = Weights()
    path: Path = "auto"
    precision: Precision = "auto"
    calibration: Calibration | None = None
    kv_cache: KVCache = KVCache()
    parallel: Parallel = Parallel()
    speculative: Speculative | None = None
    lora: LoRA | None = None
    engine: Engine = Engine()
    replay: Replay | None = None
    max_batch_size: int = 32
    max_seq_len: int = 8192
    max_num_tokens: int = 8192
    decoupled: bool = True
    moe_backend: Literal["auto", "CUTLASS", "TRITON"] = "auto"
    chunked_prefill: bool = False
    scheduler: Literal["guaranteed_no_evict", "max_utilization"] = "guaranteed_no_evict"
    guided_decoding: bool = False
    tool_parser: Literal["auto", "none", "hermes", "llama3_json", "mistral", "harmony"] = "auto"
    reasoning_parser: Literal["auto", "none", "qwen3", "deepseek_r1"] = "auto"
    cancellation_check_period_ms: int = 100
    max_queue_size: int = 256
    trust_remote_code: bool = False
    runtime: Literal["triton", "trtllm-serve", "vllm"] = "triton"
    image: str = ""
    """Image of a runtime beside Triton, `name:tag@sha256:…`; the tag names a release whose flags the catalog has."""
    port: int = 8010
    """Port of a runtime beside Triton, on loopback of the host; clients come to the gateway."""

    def __post_init__(self) -> None:
        completed(self)
