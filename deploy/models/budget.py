"""MiB of each model on the GPUs of one server. The arithmetic is `deploy.models.memory`; validation refuses.

An LLM takes every GPU of its server (tensor x pipeline parallel); encoders are on the first one, which therefore has
the least room. The memory of a draft model or heads is counted with their LLM.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deploy.catalog import ENGINE_ENDS_WITH, GPU
from deploy.catalog.runtimes import TRITON, VLLM
from deploy.catalog.versions import at_least
from deploy.models import memory
from deploy.models.paths import choose_path
from deploy.models.resolve import Layout, Served, kv_dtype_of, layout_of, precision_of
from deploy.models.speculation import (
    drafted_tokens,
    speculation_bytes,
    speculation_kv_bytes,
    speculative_of,
    target_weights_mib,
)
from deploy.slices.host import MemorySlice
from deploy.spec import LLM, Encoder, Server

NOTHING = MemorySlice(weights_mib=0, context_mib=0, workspace_mib=0, kv_cache_mib=0)


@dataclass(frozen=True, kw_only=True)
class Share:
    """The MiB and tokens of one model. `gpus` are the indexes of its GPUs; empty for an encoder on the CPU."""

    model: str
    gpus: tuple[int, ...]
    memory: MemorySlice
    kv_cache_tokens: int = 0
    kv_bytes_per_token: int = 0


@dataclass(frozen=True, kw_only=True)
class ServerBudget:
    """All shares of one server. `left_mib` is the free memory of its first GPU; below zero it is over-committed."""

    server: str
    gpus: tuple[int, ...]
    usable_mib: int
    shares: tuple[Share, ...]
    own_mib: int = 0
    """MiB of the operator's own models on each GPU."""

    def taken_mib(self, gpu: int) -> int:
        return (
            memory.SERVER_MIB + self.own_mib + sum(share.memory.total_mib for share in self.shares if gpu in share.gpus)
        )

    @property
    def needed_mib(self) -> int:
        return max((self.taken_mib(gpu) for gpu in self.gpus), default=0)

    @property
    def plannable_mib(self) -> int:
        return self.usable_mib - memory.RESERVE_MIB

    @property
    def left_mib(self) -> int:
        return self.plannable_mib - self.needed_mib


def server_budget(server: Server, served: Iterable[Served], gpu: GPU, trtllm: str = "") -> ServerBudget:
    """The budget of one server; an LLM without a number of tokens gets the memory that all others leave.

    `trtllm` is the image's TensorRT-LLM, which decides the path of an LLM; without it an LLM counts as two processes.
    """
    models = tuple(served)
    fixed = tuple(_share(model, server, trtllm, gpu) for model in models)
    own_mib = sum(model.mib for model in server.own_models)
    before = ServerBudget(
        server=server.name, gpus=server.gpus, usable_mib=gpu.usable_mib, shares=fixed, own_mib=own_mib
    )
    shares = tuple(_fill(model, share, before.left_mib, trtllm) for model, share in zip(models, fixed, strict=True))
    return replace(before, shares=shares)


def pages_context(served: Served) -> bool:
    """True if an engine's context attention may read its cache in pages, which block reuse and chunked context need.

    TensorRT-LLM refuses it for an int8 cache, and for an fp8 cache unless its attention runs in fp8 too, which it does
    under per-tensor fp8, W4A8 AWQ and NVFP4 weights only (attentionOp.cpp, builder.py).
    """
    dtype = kv_dtype_of(served)
    return dtype != "int8" and (dtype != "fp8" or precision_of(served) in ("fp8", "w4a8_awq", "nvfp4"))


def reuses_blocks(served: Served, trtllm: str = "") -> bool:
    """True if finished sequences stay in the key/value cache for the next one with the same beginning."""
    model = served.model
    if not isinstance(model, LLM):
        return False
    if model.kv_cache.per_tenant:
        return False
    if model.kv_cache.reuse is not None:
        return model.kv_cache.reuse
    if model.runtime == VLLM:
        return True
    return served.architecture.block_reuse and (not is_compiled(served, trtllm) or pages_context(served))


def is_compiled(served: Served, trtllm: str) -> bool:
    """True if a model is served as a TensorRT engine under this TensorRT-LLM."""
    if is_beside(served):
        return False
    if served.model.path == "engine":
        return served.architecture.engine and at_least(ENGINE_ENDS_WITH, trtllm or ENGINE_ENDS_WITH)
    return bool(trtllm) and choose_path(served.model.path, served.architecture, trtllm).path == "engine"


def is_beside(served: Served) -> bool:
    return isinstance(served.model, LLM) and served.model.runtime != TRITON


def _processes(served: Served, model: LLM, compiled: bool) -> int:
    """Processes of an LLM that hold a CUDA context on each of its GPUs."""
    if model.runtime == VLLM:
        return memory.VLLM_PROCESSES
    processes = memory.ENGINE_PROCESSES if compiled else memory.LLM_PROCESSES
    # the C++ runtime holds one engine, so a draft has a separate worker
    return processes + (1 if compiled and served.draft else 0)


def _share(served: Served, server: Server, trtllm: str, gpu: GPU) -> Share:
    if isinstance(served.model, LLM):
        return _llm_share(served, served.model, layout_of(server, served.model), server, trtllm, gpu)
    return _encoder_share(served, served.model, server)


def _encoder_share(served: Served, model: Encoder, server: Server) -> Share:
    if model.device == "cpu":
        return Share(model=model.name, gpus=(), memory=NOTHING)
    parameters = served.local.parameters if served.local else 0
    share = MemorySlice(
        weights_mib=memory.encoder_weights_mib(served.shape, model.dtype, parameters=parameters),
        context_mib=memory.ENCODER_CONTEXT_MIB,
        workspace_mib=memory.encoder_workspace_mib(
            served.shape,
            model.dtype,
            model.max_batch_tokens,
            model.streams,
            gated=served.architecture.gated,
            float32_residuals=served.architecture.float32_residuals,
            relative_positions=served.architecture.relative_positions,
        ),
        kv_cache_mib=0,
    )
    return Share(model=model.name, gpus=server.gpus[:1], memory=share)


def _llm_share(served: Served, model: LLM, layout: Layout, server: Server, trtllm: str, gpu: GPU) -> Share:
    dtype = kv_dtype_of(served)
    per_token = memory.kv_bytes_per_token(served.shape, dtype, layout.tensor, layout.pipeline)
    per_token += speculation_kv_bytes(served, dtype, layout)
    tokens = model.kv_cache.tokens or 0
    compiled = is_compiled(served, trtllm)
    beside_bytes = -(-speculation_bytes(served) // layout.tensor)
    tiles = memory.padding_tiles(int(gpu.sm), "" if model.runtime == VLLM else model.moe_backend)
    beside_bytes += memory.padding_bytes(served.shape, tiles, layout.tensor, max(layout.expert, 1))
    share = MemorySlice(
        weights_mib=target_weights_mib(served, layout) + memory.mib(beside_bytes),
        context_mib=_processes(served, model, compiled) * memory.CONTEXT_MIB,
        workspace_mib=_workspace_mib(served, model, layout) + (_draft_mib(served, model, layout) if compiled else 0),
        kv_cache_mib=memory.kv_cache_mib(tokens, per_token),
    )
    return Share(model=model.name, gpus=server.gpus, memory=share, kv_cache_tokens=tokens, kv_bytes_per_token=per_token)


def _workspace_mib(served: Served, model: LLM, layout: Layout) -> int:
    """MiB of activations, of logits of every row that the target scores (drafted, beams too) and of adapters' cache."""
    rows = model.max_batch_size * (1 + drafted_tokens(speculative_of(served))) * max(model.engine.max_beam_width, 1)
    shape, tokens, tensor = served.shape, model.max_num_tokens, layout.tensor
    if model.runtime == VLLM:
        workspace = memory.vllm_workspace_mib(
            shape, max_num_tokens=tokens, rows=rows, tensor_parallel=tensor, gpus=layout.world
        )
    else:
        workspace = memory.llm_workspace_mib(shape, max_num_tokens=tokens, max_batch_size=rows, tensor_parallel=tensor)
    return workspace + (model.lora.gpu_mib if model.lora else 0)


def _draft_mib(served: Served, model: LLM, layout: Layout) -> int:
    """MiB of activations, logits and runtime of the draft's own engine, built for the target's tokens and rows."""
    if not served.draft:
        return 0
    return memory.llm_workspace_mib(
        served.draft,
        max_num_tokens=model.max_num_tokens,
        max_batch_size=model.max_batch_size,
        tensor_parallel=layout.tensor,
    )


def host_mib(server: Server, served: Iterable[Served]) -> int:
    """MiB of host memory that a server pins for key/value blocks and adapters, all ranks together."""
    total = 0
    for known in served:
        if isinstance(known.model, LLM):
            adapters = known.model.lora.host_mib if known.model.lora else 0
            total += (known.model.kv_cache.host_mib + adapters) * layout_of(server, known.model).world
    return total


def _fill(served: Served, share: Share, left_mib: int, trtllm: str) -> Share:
    """The model's share with its key/value cache extended by `left_mib`, if it asks for the remaining memory."""
    model = served.model
    if not isinstance(model, LLM) or model.kv_cache.tokens is not None or left_mib <= 0:
        return share
    tokens = memory.kv_tokens_in(left_mib, share.kv_bytes_per_token)
    if not reuses_blocks(served, trtllm):  # without reuse, sequences occupy no more tokens
        tokens = min(tokens, memory.kv_tokens_useful(model.max_batch_size, model.max_seq_len))
    grown = MemorySlice(
        weights_mib=share.memory.weights_mib,
        context_mib=share.memory.context_mib,
        workspace_mib=share.memory.workspace_mib,
        kv_cache_mib=memory.kv_cache_mib(tokens, share.kv_bytes_per_token),
    )
    return Share(
        model=share.model,
        gpus=share.gpus,
        memory=grown,
        kv_cache_tokens=tokens,
        kv_bytes_per_token=share.kv_bytes_per_token,
    )
