"""Judges whether the models of each server fit its GPUs, and names changes with which they would."""

from collections.abc import Iterator

from deploy.catalog.number_ranges import RANGES
from deploy.models import memory
from deploy.models.budget import ServerBudget, server_budget
from deploy.models.resolve import Served, gpu_of, image_of, release_row, serve
from deploy.refusals import Refusal, model_at, refuse, server_at
from deploy.spec import LLM, Encoder, Host, Server
from deploy.spec.surroundings import Surroundings
from deploy.validation.models import KINDS
from deploy.validation.shapes import shape_problems

LEAST_MEMORY_MIB = int(RANGES["Machine"]["memory_mib"].least)


def memory_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each server that does not fit; none if a model or GPU is unknown, which other checks refuse."""
    row = release_row(host.release)
    trtllm = image_of(host, row).trtllm if row else ""
    for server in host.servers:
        gpu = gpu_of(host, server)
        greedy = list(_several_leftovers(server))
        yield from greedy
        served = [serve(model, surroundings) for model in server.models]
        known = [served_model for served_model in served if served_model]
        impossible = any(shape_problems(server, model) for model in server.models)
        if impossible or greedy or not gpu or not server.gpus or not known or len(known) < len(served):
            continue
        if any(
            KINDS.get(served_model.architecture.kind) != type(served_model.model).__name__
            or served_model.uncounted_cache
            for served_model in known
        ):
            continue
        budget = server_budget(server, known, gpu, trtllm)
        yield from _fits(server, known, budget) if budget.left_mib < 0 else _one_sequence(server, known, budget)


def _several_leftovers(server: Server) -> Iterator[Refusal]:
    greedy = [model.name for model in server.models if isinstance(model, LLM) and model.kv_cache.tokens is None]
    if len(greedy) > 1:
        yield refuse(
            "two-leftovers",
            f"server {server.name}: {len(greedy)} LLMs each want the memory that the others leave",
            where=model_at(server.name, greedy[1], "kv_cache", "tokens"),
            seen=f"None for {', '.join(greedy)}",
            wanted="a number of tokens for all but one",
            attempt=f"KVCache(tokens=…) for {greedy[0]}; the LLM that loads last may take the rest",
        )


def _fits(server: Server, served: list[Served], budget: ServerBudget) -> Iterator[Refusal]:
    needs = " · ".join(
        [
            *(f"{share.model} {share.memory.total_mib:,}" for share in budget.shares if share.gpus),
            *(f"{model.name} {model.mib:,}" for model in server.own_models if model.mib),
        ]
    )
    yield refuse(
        "over-committed",
        f"server {server.name}: its models need {budget.needed_mib:,} MiB on each GPU, which has "
        f"{budget.plannable_mib:,} for them",
        where=server_at(server.name, "models"),
        seen=f"{needs} · tritonserver {memory.SERVER_MIB:,}",
        wanted=f"at most {budget.plannable_mib:,}: {budget.usable_mib:,} usable less {memory.RESERVE_MIB:,} in reserve",
        attempt=_shrink(served, budget),
    )


def _shrink(served: list[Served], budget: ServerBudget) -> str:
    """The smallest change that fits: one stream or fewer cache tokens if that is enough, else one model fewer."""
    for served_model, share in zip(served, budget.shares, strict=True):
        if isinstance(served_model.model, Encoder) and served_model.model.streams > 1:
            spare = share.memory.workspace_mib * (served_model.model.streams - 1) // served_model.model.streams
            if spare + budget.left_mib >= 0:
                return f"streams=1 for {served_model.model.name}, or one model fewer on this GPU"
    for served_model, share in zip(served, budget.shares, strict=True):
        model, spare = served_model.model, share.memory.kv_cache_mib + budget.left_mib
        tokens = memory.kv_tokens_in(spare, share.kv_bytes_per_token) if share.kv_bytes_per_token else 0
        if isinstance(model, LLM) and tokens >= model.max_seq_len:
            return f"KVCache(tokens={tokens}) for {model.name}, or one model fewer on this GPU"
    return "one model fewer on this GPU, a smaller max_batch_tokens or max_num_tokens, or a GPU with more memory"


def shared_memory_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each server whose shared memory is larger than the host's memory."""
    for server in host.servers:
        if LEAST_MEMORY_MIB <= host.machine.memory_mib < server.shm_mib:
            yield refuse(
                "shm-beyond-memory",
                f"server {server.name}: its shared memory is larger than the memory of the host",
                where=server_at(server.name, "shm_mib"),
                seen=f"shm_mib={server.shm_mib:,}, memory_mib={host.machine.memory_mib:,}",
                wanted=f"less than {host.machine.memory_mib:,}; 2,048 holds the largest batch of a Python model",
                attempt="leave shm_mib out",
            )


def _one_sequence(server: Server, served: list[Served], budget: ServerBudget) -> Iterator[Refusal]:
    for served_model, share in zip(served, budget.shares, strict=True):
        model = served_model.model
        if (
            not isinstance(model, LLM)
            or model.kv_cache.tokens is not None
            or share.kv_cache_tokens >= model.max_seq_len
        ):
            continue
        short = memory.kv_cache_mib(model.max_seq_len - share.kv_cache_tokens, share.kv_bytes_per_token)
        yield refuse(
            "left-below-one-sequence",
            f"{model.name}: the remaining memory holds {share.kv_cache_tokens:,} tokens, less than one sequence",
            where=model_at(server.name, model.name, "kv_cache", "tokens"),
            seen=f"{budget.left_mib + share.memory.kv_cache_mib:,} MiB left by the other models",
            wanted=f"{model.max_seq_len:,} tokens, which is {short:,} MiB more",
            attempt=f"max_seq_len={max(share.kv_cache_tokens, 32)}, or one model fewer on this GPU",
        )
