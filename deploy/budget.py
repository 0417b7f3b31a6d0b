"""Who gets how many MiB on the GPUs of one server. The arithmetic is `deploy.memory`; refusing is left to the checks.

An LLM takes every GPU of its server (tensor parallel); encoders sit on the first one, so that one is the tightest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deploy import memory
from deploy.catalog import GPU, Architecture
from deploy.resolve import Served
from deploy.slice import MemorySlice
from deploy.spec import LLM, Encoder, Server

NOTHING = MemorySlice(weights_mib=0, context_mib=0, workspace_mib=0, kv_cache_mib=0)


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one model gets. `gpus` are the indexes it runs on; empty for an encoder on the CPU."""

    model: str
    gpus: tuple[int, ...]
    memory: MemorySlice
    kv_cache_tokens: int = 0
    kv_bytes_per_token: int = 0


@dataclass(frozen=True, kw_only=True)
class ServerBudget:
    """All shares of one server. `left_mib` is what its first GPU has to spare; below zero it is over-committed."""

    server: str
    gpus: tuple[int, ...]
    usable_mib: int
    shares: tuple[Share, ...]

    def taken_mib(self, gpu: int) -> int:
        """MiB of this server on one GPU: its models and tritonserver itself."""
        return memory.SERVER_MIB + sum(share.memory.total_mib for share in self.shares if gpu in share.gpus)

    @property
    def needed_mib(self) -> int:
        """MiB on the tightest GPU."""
        return max((self.taken_mib(gpu) for gpu in self.gpus), default=0)

    @property
    def plannable_mib(self) -> int:
        """Usable MiB less the reserve."""
        return self.usable_mib - memory.RESERVE_MIB

    @property
    def left_mib(self) -> int:
        """MiB to spare on the tightest GPU."""
        return self.plannable_mib - self.needed_mib


def server_budget(server: Server, served: Iterable[Served], gpu: GPU) -> ServerBudget:
    """The budget of one server; an LLM that asks for no number of tokens gets what all others leave."""
    models = tuple(served)
    fixed = tuple(_share(one, server) for one in models)
    before = ServerBudget(server=server.name, gpus=server.gpus, usable_mib=gpu.usable_mib, shares=fixed)
    shares = tuple(_fill(one, share, before.left_mib, server) for one, share in zip(models, fixed, strict=True))
    return ServerBudget(server=server.name, gpus=server.gpus, usable_mib=gpu.usable_mib, shares=shares)


def reuses_blocks(model: LLM, architecture: Architecture) -> bool:
    """Whether finished sequences stay in the key/value cache for the next one with the same beginning."""
    return architecture.block_reuse if model.kv_cache.reuse is None else model.kv_cache.reuse


def _share(served: Served, server: Server) -> Share:
    if isinstance(served.model, LLM):
        return _llm_share(served, served.model, server)
    return _encoder_share(served, served.model, server)


def _encoder_share(served: Served, model: Encoder, server: Server) -> Share:
    if model.device == "cpu":
        return Share(model=model.name, gpus=(), memory=NOTHING)
    parameters = served.local.parameters if served.local else 0
    share = MemorySlice(
        weights_mib=memory.encoder_weights_mib(served.shape, model.dtype, parameters=parameters),
        context_mib=memory.CONTEXT_MIB,
        workspace_mib=memory.encoder_workspace_mib(served.shape, model.dtype, model.max_batch_tokens),
        kv_cache_mib=0,
    )
    return Share(model=model.name, gpus=server.gpus[:1], memory=share)


def _llm_share(served: Served, model: LLM, server: Server) -> Share:
    ways = len(server.gpus)
    per_token = memory.kv_bytes_per_token(served.shape, model.kv_cache.dtype, ways)
    tokens = model.kv_cache.tokens or 0
    share = MemorySlice(
        weights_mib=memory.llm_weights_mib(
            served.shape, stored_bytes=served.local.stored_bytes if served.local else 0, tensor_parallel=ways
        ),
        context_mib=memory.LLM_PROCESSES * memory.CONTEXT_MIB,
        workspace_mib=memory.llm_workspace_mib(
            served.shape, max_num_tokens=model.max_num_tokens, max_batch_size=model.max_batch_size, tensor_parallel=ways
        ),
        kv_cache_mib=memory.kv_cache_mib(tokens, per_token),
    )
    return Share(model=model.name, gpus=server.gpus, memory=share, kv_cache_tokens=tokens, kv_bytes_per_token=per_token)


def _fill(served: Served, share: Share, left_mib: int, server: Server) -> Share:
    """The same share with its key/value cache grown into `left_mib`, where it asked for what is left."""
    model = served.model
    if not isinstance(model, LLM) or model.kv_cache.tokens is not None or left_mib <= 0:
        return share
    tokens = memory.kv_tokens_in(left_mib, share.kv_bytes_per_token)
    if not reuses_blocks(model, served.architecture):  # without reuse, more than this could never be occupied
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
