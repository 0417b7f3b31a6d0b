"""The gateway of a host: the model names of its clients, and the servers behind each."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, replace

from deploy.catalog import SYSTEMS, architecture_as
from deploy.catalog.runtimes import SERVE, VLLM
from deploy.catalog.versions import at_least
from deploy.models.files import weights_path
from deploy.models.llm_contract import model_name
from deploy.models.resolve import parsers_of
from deploy.slices.gateway import GatewayAliasSlice, GatewayModelSlice, GatewaySlice
from deploy.slices.host import ModelSlice, ServerSlice, Slice
from deploy.slices.image import ImageSlice
from deploy.spec import LLM, Alias, Gateway, Host, Model

TASK_NAMES = {"query": "search_query", "document": "search_document"}
"""NAME:query and NAME:document, for clients of APIs that know no tasks."""

HTTPS_PORT = 443
ACME_PORT = 80
"""The port on which an ACME authority fetches the answer to its challenge (RFC 8555, 8.3)."""

SALTS_SINCE = "1.1"
"""The TensorRT-LLM since which the LLM API takes a `cache_salt` (pull request 7106); models of engines do not."""


def gateway_slice(host: Host, servers: tuple[ServerSlice, ...]) -> GatewaySlice | None:
    """The planned gateway of the host; None if the host declares none."""
    gateway = host.gateway
    if gateway is None:
        return None
    models = gateway_models(host, servers)
    return GatewaySlice(
        address=gateway.address,
        ports=gateway.ports,
        url=gateway.url or https_url(gateway),
        is_behind_balancer=gateway.protection == "balancer" and len(servers) == 1,
        keys=gateway.keys or "",
        hold_seconds=gateway.hold_seconds,
        drain_seconds=gateway.drain_seconds,
        limits=gateway.limits,
        trace_one_in=gateway.trace_one_in or 0,
        unknown_fields=gateway.unknown_fields,
        cors_origins=gateway.cors_origins,
        pages=gateway.pages,
        default_embedder=gateway.default_embedder,
        default_reranker=gateway.default_reranker,
        prices=tuple(sorted(gateway.prices.items(), key=lambda pair: pair[0])),
        usage_days=gateway.usage_days,
        identity=gateway.identity,
        python=SYSTEMS[host.machine.os].python,
        fingerprint=fingerprint(servers),
        models=models,
        aliases=(*task_aliases(models), *adapter_aliases(host), *_declared_aliases(gateway)),
    )


def https_url(gateway: Gateway) -> str:
    """The URL for clients with a certificate of ACME; empty if the certificate's names are unknown."""
    https = gateway.https
    if https is None or https.acme is None or not https.acme.names:
        return ""
    return f"https://{https.acme.names[0]}" + (f":{https.port}" if https.port != HTTPS_PORT else "")


def with_gateway_count(slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """The slices; each gateway has the number of hosts with a gateway."""
    hosts = sum(slice_.gateway is not None for slice_ in slices)
    return tuple(
        replace(slice_, gateway=replace(slice_.gateway, hosts=hosts)) if slice_.gateway else slice_ for slice_ in slices
    )


def gateway_models(host: Host, servers: Iterable[ServerSlice]) -> tuple[GatewayModelSlice, ...]:
    """The models of all servers by name, each once: several servers may serve the same model."""
    llms = {model.name: model for model in host.llms}
    serving: dict[str, list[str]] = {}
    first: dict[str, tuple[ModelSlice, str]] = {}
    for server in servers:
        for model in server.models:
            serving.setdefault(model.name, []).append(server.name)
            first.setdefault(model.name, (model, server.image.trtllm))
    return tuple(gateway_model(*first[name], tuple(serving[name]), llms.get(name)) for name in sorted(first))


def takes_salt(path: str, trtllm: str) -> bool:
    """True if an LLM on this path keeps cached prefixes with different salts apart.

    vLLM's completions take `cache_salt` (0.26.0); of trtllm-serve's completions this is not known.
    """
    if path in (VLLM, SERVE):
        return path == VLLM
    return path != "engine" and at_least(trtllm, SALTS_SINCE)


def fingerprint(servers: Iterable[ServerSlice]) -> str:
    """`serves-` and 16 hex digits over images and models; ports and addresses do not count."""
    content = [(_image_values(server.image), [_answering(model) for model in server.models]) for server in servers]
    return "serves-" + hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _answering(model: ModelSlice) -> dict[str, object]:
    """A model's values that affect answers: without its replay, and without the port of a program beside Triton."""
    values = asdict(model)
    del values["replay"]
    if model.runtime is None:
        del values["runtime"]
    else:
        beside = asdict(model.runtime) | {"port": 0, "arguments": ()}
        values["runtime"] = {name: value for name, value in beside.items() if name not in ("environment", "group")}
    return values


def _image_values(image: ImageSlice) -> dict[str, object]:
    return {name: value for name, value in asdict(image).items() if name != "shared_port"}


def gateway_model(model: ModelSlice, trtllm: str, servers: tuple[str, ...], llm: LLM | None) -> GatewayModelSlice:
    """A model as clients see it; `llm` is its declaration, None for an encoder."""
    if llm:
        tool_parser, reasoning_parser = parsers_of(llm)
        return GatewayModelSlice(
            name=model.name,
            kind=model.kind,
            triton_model=model_name(model.name, model.path),
            servers=servers,
            context_tokens=llm.max_seq_len,
            files=weights_path(model.weights),
            tool_parser=tool_parser,
            reasoning_parser=reasoning_parser,
            guided_decoding=llm.guided_decoding,
            salts=salted(model, trtllm),
        )
    return encoder_model(model, servers)


def salted(model: ModelSlice, trtllm: str) -> bool:
    """True if the server keeps cached prefixes of different tenants apart by a salt."""
    if model.runtime:
        return model.kv_reuse and takes_salt(model.runtime.name, model.runtime.image.trtllm)
    return model.kv_reuse and takes_salt(model.path, trtllm)


def encoder_model(model: ModelSlice, servers: tuple[str, ...]) -> GatewayModelSlice:
    return GatewayModelSlice(
        name=model.name,
        kind=model.kind,
        triton_model=model.name,
        servers=servers,
        dimensions=model.dimensions if model.kind == "embedder" else 0,
        max_items=int(str(model.settings["max_items"])),
        max_tokens=int(str(model.settings["max_tokens"])),
        tasks=tasks_of(model) if model.kind == "embedder" else (),
    )


def tasks_of(embedder: ModelSlice) -> tuple[str, ...]:
    return tuple(json.loads(str(embedder.settings.get("prefixes", "{}")))) or _tasks_of_family(embedder)


def _tasks_of_family(embedder: ModelSlice) -> tuple[str, ...]:
    row = architecture_as(embedder.architecture, embedder.kind)
    return row.tasks if row else ()


def task_aliases(models: Iterable[GatewayModelSlice]) -> list[GatewayAliasSlice]:
    """Names of embedders with a task in them, because many APIs have no field for the task."""
    return [
        GatewayAliasSlice(name=f"{model.name}:{word}", models=(model.name,), task=task)
        for model in models
        for word, task in TASK_NAMES.items()
        if task in model.tasks
    ]


def _declared_aliases(gateway: Gateway) -> list[GatewayAliasSlice]:
    return [_declared(name, gateway.aliases[name]) for name in sorted(gateway.aliases)]


def _declared(name: str, alias: str | tuple[str, ...] | Alias) -> GatewayAliasSlice:
    if not isinstance(alias, Alias):
        return GatewayAliasSlice(name=name, models=named(alias))
    is_split = len(alias.models) > 1
    return GatewayAliasSlice(
        name=name,
        models=named(alias),
        weights=tuple(alias.models.values()) if is_split else (),
        sticky=alias.sticky if is_split else "",
        fallback=alias.fallback,
    )


def adapter_aliases(host: Host) -> list[GatewayAliasSlice]:
    """Names of the host's LoRA adapters: NAME:ADAPTER."""
    names = {name: None for _, model in host.served_models for name in adapter_names(model)}
    return [GatewayAliasSlice(name=f"{model}:{name}", models=(model,), adapter=name) for model, name in names]


def adapter_names(model: Model) -> list[tuple[str, str]]:
    """(model, adapter) of each LoRA adapter of the model."""
    lora = model.lora if isinstance(model, LLM) else None
    return [(model.name, adapter.name) for adapter in lora.adapters] if lora else []


def named(alias: str | tuple[str, ...] | Alias) -> tuple[str, ...]:
    """The models behind an alias, without a fallback."""
    if isinstance(alias, Alias):
        return tuple(alias.models)
    return (alias,) if isinstance(alias, str) else alias
