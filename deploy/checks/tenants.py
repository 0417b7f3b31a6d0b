"""Judges whether what one tenant asked can be noticed by another.

A block of the key/value cache that is found again answers faster, which tells that somebody began a prompt in the same
way. TensorRT-LLM can salt blocks per tenant from 1.0 on, but neither of Triton's models (`llmapi`, `tensorrt_llm`)
hands a request's salt to it up to 26.07 (read in their sources, 2026-11-21; not tried).
"""

from __future__ import annotations

from collections.abc import Iterator

from deploy.errors import Refusal
from deploy.refuse import model_at, refuse
from deploy.spec import LLM, Host


def tenant_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each LLM that is to reuse blocks and keep tenants apart at once."""
    for server in host.servers:
        for model in server.models:
            if isinstance(model, LLM) and model.kv_cache.per_tenant and model.kv_cache.reuse:
                yield refuse(
                    "reuse-among-tenants",
                    f"{model.name} cannot reuse blocks and keep tenants apart: Triton hands no tenant's salt on",
                    where=model_at(server.name, model.name, "kv_cache", "per_tenant"),
                    seen="per_tenant=True, reuse=True",
                    wanted="one of the two in one server",
                    attempt="one server per tenant with reuse=True, or per_tenant=True alone, which reuses nothing",
                )
