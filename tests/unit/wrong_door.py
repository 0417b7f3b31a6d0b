"""Wrong front doors of one host, by the promise each one proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.spec import Door, DoorLimits, Traffic
from tests.unit.given import EMBEDDER, GPT_OSS, MACHINE, MAIN, RERANKER, Source, main
from tests.unit.wrong import Wrong

DROPS_ITS_TOKENIZER = replace(GPT_OSS, weights=replace(GPT_OSS.weights, files=("config.json", "*.safetensors")))
TWO = replace(MAIN, name="two", gpus=(1,), http_port=8010, grpc_port=8011, metrics_port=8012)


def wrong_door(kind: str, where: str, data: dict[str, Any] | None = None, **door: Any) -> Wrong:
    """A host with one mistake in its door; `data` changes the host beside it."""
    return Wrong({"door": Door(**door), **(data or {})}, kind, where)


def wrong_others(kind: str, where: str, names: tuple[str, ...] = ("h100-02",), **other: Any) -> Wrong:
    """A door that sends to another host, which is good but for one mistake; `here` changes the door's own host."""
    here = {"peer_address": "10.0.0.1"} | other.pop("here", {})
    there = {"machine": MACHINE, "servers": (MAIN,), "door": None, "peer_address": "10.0.0.2"} | other
    return Wrong({"door": Door(others=names, **here.pop("door", {})), **here}, kind, where, (Source("h100-02", there),))


OTHERS = {
    "a door's other hosts are there": wrong_others("door-to-nowhere", "door.others", ("h100-03",)),
    "a door's other hosts are reached": wrong_others("no-peer-address", "peer_address", peer_address=""),
    "a door's host is seen by others": wrong_others("no-peer-address", "peer_address", here={"peer_address": ""}),
    "a door has the tokenizer of others' models": wrong_others(
        "door-without-weights", "door.others", **main(replace(GPT_OSS, name="other"))
    ),
    "one name is one model on all hosts of a door": wrong_others(
        "one-name-two-models", "door.others", **main(replace(RERANKER, max_items=16), GPT_OSS)
    ),
    "a door asks a model alike on all hosts": wrong_others(
        "door-wants-streams",
        'servers["main"].models["gpt-oss-20b"].decoupled',
        **main(replace(GPT_OSS, decoupled=False)),
    ),
    "an alias is no model of another host": wrong_others(
        "alias-of-a-model",
        'door.aliases["mine"]',
        here={"door": {"aliases": {"mine": "bge"}}},
        **main(replace(EMBEDDER, name="mine")),
    ),
    "doors of others need HAProxy": wrong_others(
        "haproxy-too-old", "machine.os", machine=replace(MACHINE, os="ubuntu-22.04")
    ),
    "doors of others have a port": wrong_others("port-range", "traffic.doors_port", traffic=Traffic(doors_port=80)),
    "doors of others have a port of their own": wrong_others(
        "port-twice", "traffic.doors_port", traffic=Traffic(doors_port=8004)
    ),
}
ALL = {
    **OTHERS,
    "a door is a Door": Wrong({"door": "yes"}, "wrong-type", "door"),
    "a door stands before servers": wrong_door("door-before-nothing", "door", {"servers": (), "farm": True}),
    "keys do not travel readable": wrong_door("door-in-plain-text", "door.address", address="0.0.0.0"),
    "a door's address is an address": wrong_door("door-in-plain-text", "door.address", address="localhost"),
    "a door's url is one": wrong_door("bad-url", "door.url", url="llm.example.com"),
    "a door has a port": wrong_door("door-without-ports", "door.ports", ports=()),
    "a door runs without privileges": wrong_door("port-range", "door.ports", ports=(443,)),
    "a door does not take a server's port": wrong_door("port-twice", "door.ports", ports=(8001,)),
    "a door does not take the balancers' port": wrong_door("port-twice", "door.ports", ports=(8003,)),
    "a door's processes have a port each": wrong_door("port-twice", "door.ports", ports=(8080, 8080)),
    "nobody waits at a door for hours": wrong_door("out-of-range", "door.hold_seconds", hold_seconds=86_400),
    "a door's processes stop in time": wrong_door("out-of-range", "door.drain_seconds", drain_seconds=0),
    "one request in none is no choice": wrong_door("out-of-range", "door.trace_one_in", trace_one_in=0),
    "a door takes a body of some size": wrong_door(
        "out-of-range", "door.limits.body_mib", limits=DoorLimits(body_mib=0)
    ),
    "a door holds a body of the size that it takes": wrong_door(
        "bodies-without-room", "door.limits.bodies_mib", limits=DoorLimits(body_mib=64)
    ),
    "an alias has a model": wrong_door("alias-of-nothing", 'door.aliases["gpt-4o"]', aliases={"gpt-4o": "gpt-oss-20"}),
    "an alias is no model": wrong_door("alias-of-a-model", 'door.aliases["bge"]', aliases={"bge": "gpt-oss-20b"}),
    "an alias is no task of a model": wrong_door(
        "alias-of-a-model", 'door.aliases["nomic:query"]', aliases={"nomic:query": "nomic"}
    ),
    "an alias of two is one LLM": wrong_door(
        "alias-of-two-models", 'door.aliases["all"]', aliases={"all": ("gpt-oss-20b", "bge")}
    ),
    "an alias is a text": wrong_door("wrong-type", 'door.aliases["gpt-4o"]', aliases={"gpt-4o": 4}),
    "keys are a file or nothing": wrong_door("wrong-type", "door.keys", keys=True),
    "a door's models stream": wrong_door(
        "door-wants-streams", 'servers["main"].models["gpt-oss-20b"].decoupled', main(replace(GPT_OSS, decoupled=False))
    ),
    "a door needs the model's tokenizer": wrong_door(
        "door-wants-a-tokenizer", 'servers["main"].models["gpt-oss-20b"].weights.files', main(DROPS_ITS_TOKENIZER)
    ),
    "one name is one model": wrong_door(
        "one-name-two-models",
        'servers["two"].models["bge"]',
        {
            "machine": replace(MACHINE, gpus=2),
            "servers": (MAIN, replace(TWO, models=(replace(RERANKER, max_items=16),))),
        },
    ),
}
