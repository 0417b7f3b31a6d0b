"""Advice for keys that belong elsewhere; the nearest known key would be wrong advice for them."""

import re
from dataclasses import fields

from deploy.catalog import DEFAULT_RELEASE
from deploy.spec import Docker, Driver, Firewall, Gateway, Hub, Machine, Registry, Rollout, Server, Toolkit

ELSEWHERE = (
    (
        re.compile(r"[a-z_]+\.[a-z_.]+"),
        f"write it in the inventory: --data takes a word or number of the host, such as release={DEFAULT_RELEASE}",
    ),
    (re.compile(r"(?i)(ansible_(ssh_)?)?(host|hostname|ip|ip_address|address|fqdn)"), '"ssh_hostname": "203.0.113.7"'),
    (re.compile(r"(?i)(ansible_(ssh_)?)?port"), '"ssh_port": 2222'),
    (re.compile(r"(?i)(ansible_(ssh_)?)?(user|username|login)|remote_user"), '"ssh_user": "ubuntu"'),
    (
        re.compile(r"(?i)ansible_(ssh_)?private_key_file|identity_?file|key_?file|private_key"),
        '"ssh_key": "~/.ssh/KEY"',
    ),
    (re.compile(r"(?i)ansible_become|become|sudo"), '"_sudo": True'),
    (
        re.compile(
            r"(?i)(ansible_)?(ssh_)?(proxy_?(jump|command)|common_args|extra_args|args|options|jump_?host|bastion)"
        ),
        '"ssh_config_file": "inventories/ssh_config", whose lines are those of ssh: ProxyJump bastion.example.com',
    ),
    (re.compile(r"(?i)groups?|tags?|roles?"), "leave it out: a group is a variable of the file"),
    (
        re.compile(r"(?i)model|llms?|model_(id|name)|checkpoint"),
        '"servers": (Server(name="main", models=(LLM("OWNER/NAME"),)),)',
    ),
    (re.compile(r"(?i)name"), '("NAME", {…}): the name of a host stands before its data'),
    (
        re.compile(r"(?i)labels?|notes?|comment|description|rack|owner|site|env(ironment)?"),
        '"own_NAME": …, for whatever is yours',
    ),
    (
        re.compile(r"(?i)([a-z]+_)?prox(y|ies)(_[a-z]+)?"),
        '"proxy": Proxy(url="http://HOST:3128"), for apt, hub, registry and ACME; for pip and the hub on this machine '
        "export https_proxy=http://HOST:3128",
    ),
    (
        re.compile(r"(?i)(triton_)?model_(repository|repo|dir)|triton_models?|models?_path"),
        "leave it out: a server has LLM, Embedder and Reranker; a model.py of your own needs a Triton of its own",
    ),
    (
        re.compile(r"(?i)(nodes?|num_nodes|nnodes|world_size|multi_?node|ray_.+|mpi_.+)"),
        'leave it out: a fleet is more hosts with the same server; Parallel(hosts=(…)) of an LLM with runtime="vllm" '
        "splits it over hosts",
    ),
)


def elsewhere(key: str) -> str:
    return next((attempt for pattern, attempt in ELSEWHERE if pattern.fullmatch(key)), "")


OBJECTS: dict[str, type] = {
    "machine": Machine,
    "servers": Server,
    "driver": Driver,
    "docker": Docker,
    "gateway": Gateway,
    "hub": Hub,
    "registry": Registry,
    "rollout": Rollout,
    "firewall": Firewall,
    "toolkit": Toolkit,
}
"""Keys of a host's data whose objects have fields that operators write outside the objects."""


def inside(key: str) -> str:
    """The object of a host's data that has a field of this name; empty without such an object."""
    for place, owner in OBJECTS.items():
        if key in {field.name for field in fields(owner)}:
            built = f"{owner.__name__}(…, {key}=…)"
            return f'"{place}": ({built},)' if place == "servers" else f'"{place}": {built}'
    return ""
