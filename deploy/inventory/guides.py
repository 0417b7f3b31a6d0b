"""The environment variables of public guides for this stack, each translated into the typed setting it meant.

The guides bake eleven variables into an image; operators who used them may put them into a host's data. Numbers are
carried over to the same setting; a share of the card becomes the number of tokens that it would hold.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from deploy.catalog import CHECKPOINTS
from deploy.models import memory
from deploy.models.cards import declared_card
from deploy.refusals import Refusal, refuse
from deploy.spec import Host

SETTINGS = {
    "MAX_BATCH_SIZE_GPT": ("LLM", "max_batch_size"),
    "MAX_BATCH_SIZE_RERANKER": ("Reranker", "max_batch_size"),
    "MAX_BATCH_SIZE_EMBED": ("Embedder", "max_batch_size"),
    "TRITON_HTTP_PORT": ("Server", "http_port"),
    "TRITON_GRPC_PORT": ("Server", "grpc_port"),
    "TRITON_METRICS_PORT": ("Server", "metrics_port"),
    "LOG_VERBOSE": ("Server", "log_verbose"),
}
LLM_SHARES = ("GPT_GPU_FRACTION", "KV_CACHE_FRACTION")
ENCODER_SHARES = {"RERANKER_GPU_FRACTION": "Reranker", "EMBED_GPU_FRACTION": "Embedder"}
NAMES = (*SETTINGS, *LLM_SHARES, *ENCODER_SHARES)
USUAL_SHARES = {"GPT_GPU_FRACTION": 0.80, "KV_CACHE_FRACTION": 0.90}
"""Shares that the guides set by default."""


def translate(data: Mapping[str, Any], host: Host | None) -> Iterator[Refusal]:
    for name in sorted(key for key in data if key.isupper()):
        if name in SETTINGS:
            yield _setting(name, data[name])
        elif name in LLM_SHARES:
            yield _llm_share(name, data, host)
        elif name in ENCODER_SHARES:
            yield _encoder_share(name, data[name])
        else:
            yield _unknown(name)


def fraction_of_tokens(value: Any, where: str) -> Refusal:
    return refuse(
        "fraction",
        f"`{where}` is a share, and the cache is counted in tokens",
        where=where,
        seen=repr(value),
        wanted="a whole number of tokens, all sequences together, or None for what is left",
        attempt="KVCache(): the plan works out how many tokens are left and writes the number",
    )


def _setting(name: str, value: Any) -> Refusal:
    owner, field = SETTINGS[name]
    return refuse(
        "guide-name",
        f"{name} is a variable of the guides; here it is a setting of {owner}",
        where=name,
        seen=f"{name}={value}",
        wanted=f"{owner}(…, {field}={value})",
        attempt=f"remove {name} and write {field}={value} in {owner}(…)",
    )


def _llm_share(name: str, data: Mapping[str, Any], host: Host | None) -> Refusal:
    tokens = _tokens_meant(data, host)
    setting = f"KVCache(tokens={tokens})" if tokens else "KVCache()"
    return refuse(
        "guide-fraction",
        f"{name} limits nothing: no server reads this variable, and free memory depends on what was loaded before",
        where=name,
        seen=f"{name}={data[name]}",
        wanted="the key/value cache as tokens, bounded for the life of the server",
        attempt=f"remove {name} and write LLM(…, kv_cache={setting})",
    )


def _encoder_share(name: str, value: Any) -> Refusal:
    owner = ENCODER_SHARES[name]
    return refuse(
        "guide-fraction",
        f"{name} is a share of the card; an encoder's memory follows from its weights and its largest batch",
        where=name,
        seen=f"{name}={value}",
        wanted=f"{owner}(…, max_batch_tokens=…), from which the plan computes MiB and caps the process there",
        attempt=f"remove {name}: {owner}(max_batch_tokens=16384) is the default",
    )


def _unknown(name: str) -> Refusal:
    return refuse(
        "unknown-key",
        f"nothing reads the data key `{name}`",
        where=name,
        seen=f"`{name}`",
        wanted="no environment variables: everything is a typed setting in deploy/spec/",
        attempt=f"leave it out; names of the guides that are translated: {', '.join(sorted(NAMES))}",
    )


def _tokens_meant(data: Mapping[str, Any], host: Host | None) -> int:
    """The tokens that the guides' two shares would have given the host's first LLM; 0 if unknown.

    Shape: (total x GPT_GPU_FRACTION - weights - contexts - workspace) x KV_CACHE_FRACTION / bytes per token.
    """
    llms = host.llms if host else ()
    gpu = declared_card(host.machine) if host else None
    known = CHECKPOINTS.get(llms[0].checkpoint) if llms and isinstance(llms[0].checkpoint, str) else None
    shares = [data.get(name, usual) for name, usual in USUAL_SHARES.items()]
    if not gpu or not known or not all(isinstance(share, (int, float)) for share in shares):
        return 0
    model, shape = llms[0], known.shape
    fixed = memory.llm_weights_mib(shape) + memory.LLM_PROCESSES * memory.CONTEXT_MIB
    fixed += memory.llm_workspace_mib(shape, max_num_tokens=model.max_num_tokens, max_batch_size=model.max_batch_size)
    left_mib = int((gpu.total_mib * shares[0] - fixed) * shares[1])
    tokens = memory.kv_tokens_in(left_mib, memory.kv_bytes_per_token(shape, model.kv_cache.dtype))
    return min(tokens, memory.kv_tokens_useful(model.max_batch_size, model.max_seq_len))
