"""Judges whether one tenant can notice another tenant's requests.

A reused block of the key/value cache makes an answer faster, which shows that another prompt began in the same way.
TensorRT-LLM's LLM API takes a salt from 1.1 on, which keeps blocks apart; the gateway sends its tenant's salt with each
request. Clients of Triton itself may send any salt, so a server without a gateway does not separate tenants while it
reuses blocks.
"""

from collections.abc import Iterator

from deploy.catalog.runtimes import SERVE
from deploy.models.budget import is_beside, is_compiled, reuses_blocks
from deploy.models.resolve import Served
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Host
from deploy.topology.gateway import SALTS_SINCE, takes_salt


def tenant_problems(host: Host) -> Iterator[Refusal]:
    for server, model in host.served_models:
        if isinstance(model, LLM) and model.kv_cache.per_tenant and model.kv_cache.reuse:
            yield refuse(
                "reuse-among-tenants",
                f"{model.name} cannot reuse blocks and also separate tenants: clients of Triton choose their own salt",
                where=model_at(server.name, model.name, "kv_cache", "per_tenant"),
                seen="per_tenant=True, reuse=True",
                wanted="per_tenant=True or reuse=True in a server, not both",
                attempt="leave reuse out, or one server per tenant with reuse=True",
            )


def shared_prefixes(host: Host, served: Served, trtllm: str) -> Iterator[str]:
    """A sentence if tenants of the host's gateway share cached prefixes of this LLM."""
    has_tenants = host.gateway is not None and host.gateway.keys is not None
    path = "engine" if is_compiled(served, trtllm) else "pytorch"
    if is_beside(served) and isinstance(served.model, LLM):
        path = served.model.runtime
    if has_tenants and reuses_blocks(served, trtllm) and not takes_salt(path, trtllm):
        why = _why_no_salt(path)
        yield (
            f"tenants of the gateway share cached prefixes of {served.model.name} ({why}), which leaks: a faster "
            "answer confirms a guess of how another tenant's prompt begins. The gateway tells them no cached_tokens; "
            "KVCache(per_tenant=True) or a server for each tenant keeps them apart"
        )


def _why_no_salt(path: str) -> str:
    if path == SERVE:
        return "completions of trtllm-serve take no cache_salt"
    return "an engine takes no cache_salt" if path == "engine" else f"cache_salt came with TensorRT-LLM {SALTS_SINCE}"
