"""Every text of every class of the spec, filled with shell, unit and template syntax: refused, or known to be data.

The source of an inventory (Terraform, Ansible, a web form) sets names and addresses of hosts, and must not become root
by that. More than 300 lines, because an inventory has every class of the spec.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from deploy import spec
from deploy.inventory.fleet import Fleet
from deploy.spec import (
    GPU,
    AcceptedHoles,
    Acme,
    Adapter,
    Alias,
    AptMirror,
    Calibration,
    DataDisk,
    Docker,
    Draft,
    Driver,
    Eagle,
    EngineStore,
    EngineTrust,
    Fabric,
    Firewall,
    Gateway,
    Https,
    Hub,
    Identity,
    Lookahead,
    LoRA,
    Medusa,
    Mirrors,
    Monitor,
    Opening,
    OwnModel,
    Price,
    Proxy,
    ReDrafter,
    Registry,
    Release,
    Replay,
    Rollout,
    Secret,
    Sharing,
    Traffic,
    Weights,
)
from deploy.validation.all_checks import judge
from tests.unit.samples import AROUND, GPT_OSS, LLAMA, MACHINE, MAIN, ONE_B, OWN, UNJUDGED, Source
from tests.unit.wrong_balancers import EDGE, SIGNED

SHELL = "x;touch$IFS/tmp/p"
"""A payload in one printable line that is not an option, so only the form of its field can refuse it."""
BROKEN = (
    "x\"\n$(touch /tmp/p)';%h {{7*7}}",
    "a\nProxyCommand=touch /tmp/p",
    "x\x1b]0;p\x07",
    "x\u202ey",
)
OPTION = "-oProxyCommand=touch"

DATA = {
    # Files of the control machine, opened there by their name; what is in them travels.
    ".Host.bundle",
    # A variable's name, a file, or a command of the control machine, which the inventory's owner has written.
    ".Secret.source",
    # Strings of JSON; tests/roles/test_hostile_words.py reads them back.
    ".Docker.daemon",
    ".Replay.reason",
    ".AcceptedHoles.reason",
}
"""Fields that may hold any line, and the reason why that is harmless. A new field is listed here, or has a form."""

COMPILED = replace(LLAMA, path="engine", replay=Replay(prompts="replay/prompts.jsonl", answers="replay/answers.jsonl"))
OF_ENGINES = {"engine_store": EngineStore.directory("engines"), "engine_trust": EngineTrust(key="keys/engines")}
MIRROR = AptMirror(url="https://mirror.example.com/apt", key_file="keys/mirror.asc")


def host(*models: Any, **data: Any) -> dict[str, Any]:
    """Data of a host that serves these models."""
    servers = (replace(MAIN, models=models or MAIN.models),)
    return {"machine": MACHINE, "servers": servers, "release": "26.07", "gateway": None} | data


BASES: dict[str, dict[str, Any]] = {
    "whole": host(
        machine=replace(MACHINE, data_disk=DataDisk(device="/dev/nvme1n1")),
        gateway=Gateway(
            aliases={"gpt-4o": "gpt-oss-20b", "chat": Alias(models={"gpt-oss-20b": 1})},
            prices={"gpt-oss-20b": Price(prompt=0.1, completion=0.4)},
            url="https://llm.example.com",
            identity=Identity(header="x-forwarded-email"),
        ),
        docker=Docker(data_root="/var/lib/docker", daemon={"log-driver": "journald"}),
        driver=Driver(version="580.95.05"),
        firewall=Firewall(allow=("10.0.0.0/8",), rest="closed", open=(Opening(port=9999, sources=("10.0.0.0/8",)),)),
        hub=Hub(token=Secret.env("HF_TOKEN")),
        mirrors=Mirrors(nvidia=MIRROR, docker=MIRROR, toolkit=MIRROR),
        registry=Registry(key=Secret.env("NGC_API_KEY")),
        rollout=Rollout(),
        sharing=Sharing(),
        peer_address="10.0.0.1",
        proxy=Proxy(
            url="http://proxy.example.com:3128",
            username="enginehouse",
            password=Secret.env("PROXY_PASSWORD"),
            direct=(".corp.example.com",),
        ),
        traffic=Traffic(address="10.0.0.1"),
    ),
    "fabric": host(
        machine=replace(MACHINE, fabric=Fabric(kind="roce", gbit=400, interface="eth1")), peer_address="10.0.0.1"
    ),
    "own release": host(release=Release(name="26.07-mine", derived_from="26.07", image="registry.example.com/t:1")),
    "own checkpoint": host(replace(GPT_OSS, name="mine", checkpoint=ONE_B, weights=OWN)),
    "own card": host(
        machine=replace(
            MACHINE, gpu="rtx-5090-32", card=GPU(pci_id="10de:2b85", sm="120", mib=32_607, smi="GeForce RTX 5090")
        )
    ),
    "weights on the host": host(
        replace(GPT_OSS, weights=Weights.on_host("/mnt/models/gpt", "openai/gpt-oss-20b", "6" * 40)),
    ),
    "own models": host(servers=(replace(MAIN, own_models=(OwnModel(name="spam", path="/srv/triton", mib=3000),)),)),
    "lora": host(
        replace(COMPILED, precision="float16", lora=LoRA(adapters=(Adapter(name="sql", task_id=1, weights=OWN),))),
        **OF_ENGINES,
    ),
    "draft": host(replace(COMPILED, speculative=Draft(checkpoint=ONE_B, weights=OWN)), **OF_ENGINES),
    "medusa": host(replace(COMPILED, speculative=Medusa(weights=OWN)), **OF_ENGINES),
    "eagle": host(replace(COMPILED, speculative=Eagle(weights=OWN)), **OF_ENGINES),
    "lookahead": host(replace(COMPILED, speculative=Lookahead()), **OF_ENGINES),
    "redrafter": host(replace(COMPILED, speculative=ReDrafter(weights=OWN)), **OF_ENGINES),
    "fp8": host(
        replace(COMPILED, precision="fp8", calibration=Calibration(directory="calibration/texts"), replay=UNJUDGED),
        **OF_ENGINES,
    ),
    "holes": host(servers=(replace(MAIN, accepts=AcceptedHoles(ids=("CVE-2026-24207",), reason="a closed network")),)),
    "https": host(
        gateway=Gateway(
            https=Https(acme=Acme(names=("llm.example.com",), email="ops@example.com", authority="ca.pem"))
        ),
        firewall=Firewall(rest="closed"),
    ),
    "https by a file": host(
        gateway=Gateway(
            https=Https(certificate="llm.pem", certificate_key=Secret.env("LLM_KEY"), allow=("10.0.0.0/8",))
        ),
        firewall=Firewall(rest="closed"),
    ),
    "pool": host(
        servers=(replace(MAIN, address="0.0.0.0", protection="balancer"),),
        pool="chat",
        peer_address="10.0.0.1",
        rollout=Rollout(interrupt=True),
    ),
}
BESIDE: dict[str, dict[str, dict[str, Any]]] = {
    "pool": {
        "edge": {
            "balancer": replace(EDGE, **SIGNED, keys="file", open_to_all=False),
            "rollout": Rollout(interrupt=True),
        },
        "watch": {
            "monitor": Monitor(os="debian-12", address="10.0.0.6", receivers=Secret.env("RECEIVERS")),
            "rollout": Rollout(interrupt=True),
        },
    }
}
HINTS: dict[str, Any] = {
    **get_type_hints(spec.Host),
    "balancer": spec.Balancer,
    "monitor": spec.Monitor,
    "rollout": Rollout,
}


def inventories() -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Valid inventories by name: data by host."""
    for name, data in BASES.items():
        yield name, {"h100-01": data, **BESIDE.get(name, {})}


def replaced(value: Any, hint: Any, payload: str) -> Iterator[tuple[str, Any]]:
    """(place, the value with the payload there) for every text that may be in `value` by its type."""
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        matching = next((option for option in options if is_dataclass(option) and isinstance(value, option)), None)
        if matching:
            yield from replaced(value, matching, payload)
        else:
            plain = [option for option in options if option is str or get_origin(option) in (tuple, Literal)]
            for option in plain:
                yield from replaced(value, option, payload)
    elif hint is str or origin is Literal:
        yield "", payload
        if isinstance(value, str) and value:
            yield "+", value + payload
    elif hint is Any:
        yield "", payload
    elif origin is tuple:
        items = value if isinstance(value, tuple) else ()
        if not is_dataclass(options[0]):
            yield "[+]", (*items, payload)
        for number, item in enumerate(items):
            for place, changed in replaced(item, options[0], payload):
                yield f"[{number}]{place}", (*items[:number], changed, *items[number + 1 :])
    elif origin is dict:
        first = next(iter(value.values()), payload)
        yield "{key}", {**value, payload: first}
        yield "{value}", {**value, next(iter(value), "key"): payload}
    elif is_dataclass(hint):
        hints = get_type_hints(type(value))
        for field in fields(value):
            for place, changed in replaced(getattr(value, field.name), hints[field.name], payload):
                yield f".{type(value).__name__}.{field.name}{place}", replace(value, **{field.name: changed})


def hostile(payload: str) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """(inventory and place, the inventory with the payload there), for every text of every inventory."""
    for name, hosts in inventories():
        for host_name, data in hosts.items():
            for key in [key for key in HINTS if key in data or (host_name == "h100-01" and key not in NOT_HERE)]:
                value = data.get(key, DEFAULTS.get(key))
                for place, changed in replaced(value, HINTS[key], payload):
                    yield f"{name}: {key}{place}", {**hosts, host_name: data | {key: changed}}


NOT_HERE = ("name", "groups", "balancer", "monitor", "rollout")
DEFAULTS = {field.name: field.default for field in fields(spec.Host) if field.default is not MISSING}


def read(hosts: dict[str, dict[str, Any]]) -> Fleet:
    return Fleet.of([Source(name, dict(data)) for name, data in hosts.items()])


def accepted(payload: str) -> set[str]:
    """The fields whose payload no check refuses, as `.Class.field`."""
    places = [place for place, hosts in hostile(payload) if not judge(read(hosts), AROUND)]
    of_hosts = (re.sub(r"^[^.]*: (\w+)[^.]*$", r".Host.\1", place) for place in places)
    return {"." + ".".join(re.findall(r"\.(\w+)", place)[-2:]) for place in of_hosts}


def test_the_tested_inventories_are_valid_and_have_every_class_of_the_spec() -> None:
    """With valid inventories, the refusals of this file are for the payload alone; a new class is tried as soon as
    it is declared."""
    assert {name: judge(read(hosts), AROUND) for name, hosts in inventories() if judge(read(hosts), AROUND)} == {}
    declared = {name for name in spec.__all__ if is_dataclass(getattr(spec, name))}
    without_texts = {"BalancerHost", "Encoder", "Host", "MonitorHost"}  # read from data, or never built itself
    seen = {kind for _, hosts in inventories() for data in hosts.values() for kind in kinds(tuple(data.values()))}
    defaults = {kind for value in DEFAULTS.values() for kind in kinds(value)}
    assert declared - without_texts - seen - defaults == set()


def kinds(value: Any) -> Iterator[str]:
    """The names of all classes inside a value."""
    if isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from kinds(item)
    elif is_dataclass(value):
        yield type(value).__name__
        yield from kinds(tuple(getattr(value, field.name) for field in fields(value)))


def test_a_line_for_a_shell_is_refused_wherever_no_line_may_stand() -> None:
    assert accepted(SHELL) == DATA


@pytest.mark.parametrize("payload", BROKEN)
def test_a_line_break_or_an_escape_is_refused_everywhere(payload: str) -> None:
    assert accepted(payload) == set()


def test_an_option_passes_for_no_text() -> None:
    """Exceptions are the words of a secret's command, and a key of Docker's own settings; a longer word may end with
    an option."""
    texts = {place for place, hosts in hostile(OPTION) if not place.endswith("+") and not judge(read(hosts), AROUND)}
    assert {place.rpartition(".")[2].partition("[")[0] for place in texts} == {"source", "daemon{value}"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("h100\n  ProxyCommand touch ran", {}),
        ("-oProxyCommand=touch", {}),
        ("$(touch ran)", {}),
        ("h100-01", {"ssh_user": "ubuntu\n  ProxyCommand touch ran"}),
        ("h100-01", {"ssh_user": "-oProxyCommand=touch"}),
        ("h100-01", {"ssh_user": "$(touch ran)"}),
        ("h100-01", {"ssh_hostname": "-oProxyCommand=touch"}),
        ("h100-01", {"ssh_hostname": "10.0.0.1 ProxyCommand"}),
        ("h100-01", {"ssh_key": "key\nProxyCommand touch"}),
        ("h100-01", {"ssh_known_hosts_file": '/dev/null" "x'}),
        ("h100-01", {"ssh_port": "22\nProxyCommand touch"}),
        ("h100-01", {"ssh_strict_host_key_checking": "no\nProxyCommand touch"}),
    ],
)
def test_login_settings_add_no_further_option_of_ssh(name: str, data: dict[str, Any]) -> None:
    """A host's name and SSH settings become arguments of ssh and lines of ssh_config."""
    problems = judge(read({name: BASES["own checkpoint"] | data}), AROUND)
    assert "unsafe-login" in {problem.kind for problem in problems}
    assert all("\n  ProxyCommand" not in str(problem.facts["seen"]) for problem in problems)
