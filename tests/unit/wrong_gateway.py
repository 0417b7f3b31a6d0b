"""Wrong gateways of one host, by the promise that each proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.spec import Alias, Gateway, GatewayLimits, Identity, Price, Traffic, Weights
from tests.unit.samples import EMBEDDER, GPT_OSS, MACHINE, MAIN, RERANKER, Source, main
from tests.unit.wrong import Wrong

DROPS_ITS_TOKENIZER = replace(GPT_OSS, weights=replace(GPT_OSS.weights, files=("config.json", "*.safetensors")))
TWO = replace(MAIN, name="two", gpus=(1,), http_port=8010, grpc_port=8011, metrics_port=8012)


def wrong_gateway(kind: str, where: str, data: dict[str, Any] | None = None, **gateway: Any) -> Wrong:
    """A host with one mistake in its gateway; `data` changes the host beside it."""
    return Wrong({"gateway": Gateway(**gateway), **(data or {})}, kind, where)


def wrong_others(kind: str, where: str, names: tuple[str, ...] = ("h100-02",), **changes: Any) -> Wrong:
    """A gateway that sends to another host, with one mistake; `here` changes the gateway's own host."""
    here = {"peer_address": "10.0.0.1"} | changes.pop("here", {})
    there = {"machine": MACHINE, "servers": (MAIN,), "gateway": None, "peer_address": "10.0.0.2"} | changes
    return Wrong(
        {"gateway": Gateway(others=names, **here.pop("gateway", {})), **here}, kind, where, (Source("h100-02", there),)
    )


OTHERS = {
    "a gateway's other hosts are there": wrong_others("gateway-to-nowhere", "gateway.others", ("h100-03",)),
    "a gateway's other hosts are reached": wrong_others("no-peer-address", "peer_address", peer_address=""),
    "a gateway's host is seen by others": wrong_others("no-peer-address", "peer_address", here={"peer_address": ""}),
    "a gateway has the tokenizer of others' models": wrong_others(
        "gateway-without-weights",
        "gateway.others",
        **main(replace(GPT_OSS, name="other", weights=Weights.on_host("/mnt/models/gpt-oss"))),
    ),
    "one name is one model on all hosts of a gateway": wrong_others(
        "one-name-two-models", "gateway.others", **main(replace(RERANKER, max_items=16), GPT_OSS)
    ),
    "a gateway asks a model alike on all hosts": wrong_others(
        "gateway-wants-streams",
        'servers["main"].models["gpt-oss-20b"].decoupled',
        **main(replace(GPT_OSS, decoupled=False)),
    ),
    "an alias is no model of another host": wrong_others(
        "alias-of-a-model",
        'gateway.aliases["mine"]',
        here={"gateway": {"aliases": {"mine": "bge"}}},
        **main(replace(EMBEDDER, name="mine")),
    ),
    "an alias names a model of some host": wrong_others(
        "alias-of-nothing", 'gateway.aliases["gpt-4o"]', here={"gateway": {"aliases": {"gpt-4o": "gpt-oss"}}}
    ),
    "a default names a model of some host": wrong_others(
        "default-of-nothing", "gateway.default_reranker", here={"gateway": {"default_reranker": "gpt-oss-20b"}}
    ),
    "a price is that of a model of some host": wrong_others(
        "price-of-nothing",
        'gateway.prices["gpt-oss"]',
        here={"gateway": {"prices": {"gpt-oss": Price(prompt=1, completion=1)}}},
    ),
    "gateways of others need HAProxy": wrong_others(
        "haproxy-too-old", "machine.os", machine=replace(MACHINE, os="ubuntu-22.04")
    ),
    "gateways of others have a port": wrong_others(
        "unbelievable-number", "traffic.gateways_port", traffic=Traffic(gateways_port=80)
    ),
    "gateways of others have a port of their own": wrong_others(
        "port-twice", "traffic.gateways_port", traffic=Traffic(gateways_port=8004)
    ),
}
ALL = {
    **OTHERS,
    "a gateway is a Gateway": Wrong({"gateway": "yes"}, "wrong-type", "gateway"),
    "a gateway stands before servers": wrong_gateway(
        "gateway-before-nothing", "gateway", {"servers": (), "farm": True}
    ),
    "keys do not travel readable": wrong_gateway("gateway-in-plain-text", "gateway.address", address="0.0.0.0"),
    "a gateway's address is an address": wrong_gateway("gateway-in-plain-text", "gateway.address", address="localhost"),
    "a gateway's url is one": wrong_gateway("bad-url", "gateway.url", url="llm.example.com"),
    "a gateway has a port": wrong_gateway("gateway-without-ports", "gateway.ports", ports=()),
    "a gateway runs without privileges": wrong_gateway("unbelievable-number", "gateway.ports[0]", ports=(443,)),
    "a gateway does not take a server's port": wrong_gateway("port-twice", "gateway.ports", ports=(8001,)),
    "a gateway does not take the balancers' port": wrong_gateway("port-twice", "gateway.ports", ports=(8003,)),
    "a gateway's processes have a port each": wrong_gateway("port-twice", "gateway.ports", ports=(8080, 8080)),
    "nobody waits at a gateway for hours": wrong_gateway(
        "unbelievable-number", "gateway.hold_seconds", hold_seconds=86_400
    ),
    "a gateway's processes stop in time": wrong_gateway(
        "unbelievable-number", "gateway.drain_seconds", drain_seconds=0
    ),
    "a default embedder is one that is served": wrong_gateway(
        "default-of-nothing", "gateway.default_embedder", default_embedder="bge"
    ),
    "unknown fields are ignored or refused": wrong_gateway(
        "unknown-choice", "gateway.unknown_fields", unknown_fields="warn"
    ),
    "a balancer's clients name no persons": wrong_gateway(
        "identity-behind-balancer",
        "gateway.identity",
        protection="balancer",
        address="0.0.0.0",
        identity=Identity(header="x-forwarded-email"),
    ),
    "a key's header names no person": wrong_gateway(
        "not-a-header-of-persons", "gateway.identity.header", identity=Identity(header="x-api-key")
    ),
    "the host itself names persons": wrong_gateway(
        "identity-from-elsewhere",
        "gateway.identity.proxies",
        identity=Identity(header="x-forwarded-email", proxies=("10.0.0.9",)),
    ),
    "an origin has no path": wrong_gateway(
        "bad-origin", "gateway.cors_origins", cors_origins=("https://app.example.com/chat",)
    ),
    "one request in none is no choice": wrong_gateway("unbelievable-number", "gateway.trace_one_in", trace_one_in=0),
    "a gateway takes a body of some size": wrong_gateway(
        "unbelievable-number", "gateway.limits.body_mib", limits=GatewayLimits(body_mib=0)
    ),
    "a gateway holds a body of the size that it takes": wrong_gateway(
        "bodies-without-room", "gateway.limits.bodies_mib", limits=GatewayLimits(body_mib=64)
    ),
    "an alias has a model": wrong_gateway(
        "alias-of-nothing", 'gateway.aliases["gpt-4o"]', aliases={"gpt-4o": "gpt-oss-20"}
    ),
    "an alias is no model": wrong_gateway("alias-of-a-model", 'gateway.aliases["bge"]', aliases={"bge": "gpt-oss-20b"}),
    "an alias is no task of a model": wrong_gateway(
        "alias-of-a-model", 'gateway.aliases["nomic:query"]', aliases={"nomic:query": "nomic"}
    ),
    "an alias of two is one LLM": wrong_gateway(
        "alias-of-two-models", 'gateway.aliases["all"]', aliases={"all": ("gpt-oss-20b", "bge")}
    ),
    "an alias is a text": wrong_gateway("wrong-type", 'gateway.aliases["gpt-4o"]', aliases={"gpt-4o": 4}),
    "an alias is no text for weights": wrong_gateway(
        "wrong-type",
        'gateway.aliases["all"]',
        aliases={"all": Alias(models={"gpt-oss-20b": "5"})},
    ),
    "an alias with weights names models": wrong_gateway(
        "alias-of-nothing", 'gateway.aliases["all"]', aliases={"all": Alias(models={"gpt-oss-20": 1})}
    ),
    "a fallback is a model": wrong_gateway(
        "alias-of-nothing", 'gateway.aliases["all"]', aliases={"all": Alias(models={"gpt-oss-20b": 1}, fallback="x")}
    ),
    "an alias names no alias": wrong_gateway(
        "alias-of-an-alias",
        'gateway.aliases["all"]',
        aliases={"gpt-4o": "gpt-oss-20b", "all": Alias(models={"gpt-4o": 1})},
    ),
    "weights give a share": wrong_gateway(
        "alias-without-weight", 'gateway.aliases["all"]', aliases={"all": Alias(models={"gpt-oss-20b": 0})}
    ),
    "a fallback is another model": wrong_gateway(
        "fallback-to-itself",
        'gateway.aliases["all"]',
        aliases={"all": Alias(models={"gpt-oss-20b": 1}, fallback="gpt-oss-20b")},
    ),
    "a fallback is of the same kind": wrong_gateway(
        "alias-of-two-kinds",
        'gateway.aliases["all"]',
        aliases={"all": Alias(models={"gpt-oss-20b": 1}, fallback="bge")},
    ),
    "keys are a file or nothing": wrong_gateway("unknown-choice", "gateway.keys", keys=True),
    "a gateway's models stream": wrong_gateway(
        "gateway-wants-streams",
        'servers["main"].models["gpt-oss-20b"].decoupled',
        main(replace(GPT_OSS, decoupled=False)),
    ),
    "a gateway needs the model's tokenizer": wrong_gateway(
        "gateway-wants-a-tokenizer", 'servers["main"].models["gpt-oss-20b"].weights.files', main(DROPS_ITS_TOKENIZER)
    ),
    "one name is one model": wrong_gateway(
        "one-name-two-models",
        'servers["two"].models["bge"]',
        {
            "machine": replace(MACHINE, gpus=2),
            "servers": (MAIN, replace(TWO, models=(replace(RERANKER, max_items=16),))),
        },
    ),
}
