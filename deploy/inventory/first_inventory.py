"""The inventory that `enginehouse init` writes, from what machines answered about themselves.

Equal machines become a group, which serves the models of the shipped inventory. Behind a balancer a group is a pool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deploy.catalog import DEFAULT_RELEASE, GPUS, SYSTEMS
from deploy.refusals.refuse import refuse

SSH_PORT = 22
TARGET = re.compile(r"(?!-)(?:([^@\s]+)@)?(?:\[([\da-fA-F:.%]+)\]|([^@:\s\[\]]+)|([\da-fA-F:]+))(?::(\d+))?")
"""User, then the host in brackets, as a name, or as a bare IPv6 address; then the port."""
FIRST_ROUTE_PORT = 8443


@dataclass(frozen=True)
class Target:
    """The address of a machine for ssh: `user@host:port`, of which only the host is needed."""

    host: str
    user: str = ""
    port: int = SSH_PORT

    @classmethod
    def of(cls, text: str) -> Target:
        """The target somebody typed. Raises: a Refusal for what names no host or no port.

        An IPv6 address stands in brackets where a port follows it.
        """
        parts = TARGET.fullmatch(text)
        if not parts or not 0 < int(parts[5] or SSH_PORT) < 65_536:
            raise refuse(
                "no-target",
                f"{text!r} names no machine to ask",
                where=text,
                seen=repr(text),
                wanted="user@host or user@host:port; an IPv6 address in brackets",
                attempt="enginehouse init ubuntu@203.0.113.7:22",
            )
        return cls(host=parts[2] or parts[3] or parts[4], user=parts[1] or "", port=int(parts[5] or SSH_PORT))

    @property
    def login(self) -> str:
        """`user@host`, as ssh takes it."""
        return f"{self.user}@{self.host}" if self.user else self.host

    def __str__(self) -> str:
        """`user@host:port`, as `of` takes it."""
        host = f"[{self.host}]" if ":" in self.host and self.port != SSH_PORT else self.host
        address = host if self.port == SSH_PORT else f"{host}:{self.port}"
        return f"{self.user}@{address}" if self.user else address


@dataclass(frozen=True)
class Kind:
    """What equal machines have in common."""

    os: str
    pci_id: str
    gpus: int
    kernel_flavour: str
    secure_boot: bool
    nvswitch: bool

    @property
    def gpu(self) -> str:
        """The catalog's name of the card; empty where it has none."""
        return next((gpu.name for gpu in GPUS.values() if gpu.pci_id == self.pci_id), "")


@dataclass(frozen=True)
class Answered:
    """A machine, and what it answered."""

    target: Target
    kind: Kind
    memory_mib: int
    disk_mib: int
    address: str
    """The address it sends from, which balancers and monitors reach it at; empty without IPv4."""

    @classmethod
    def of(cls, target: Target, answers: str) -> Answered:
        """A machine from its answers, one `name=value` a line."""
        pairs = [line.partition("=")[::2] for line in answers.splitlines()]
        values = dict(pairs)
        cards = Counter(value for name, value in pairs if name == "gpu" and value.startswith("10de:"))
        pci_id, count = cards.most_common(1)[0] if cards else ("", 0)
        kind = Kind(
            os=values.get("os", ""),
            pci_id=pci_id,
            gpus=count,
            kernel_flavour=kernel_flavour(values.get("os", ""), values.get("kernel", "")),
            secure_boot=values.get("secure_boot") == "1",
            nvswitch="10de" in [value for name, value in pairs if name == "bridge"],
        )
        memory_mib, disk_mib = int(values.get("memory_kib", 0)) // 1024, int(values.get("disk_mib", 0))
        return cls(target, kind, memory_mib, disk_mib, values.get("address", ""))


def kernel_flavour(system: str, kernel: str) -> str:
    """The flavour of a running kernel (`uname -r`), as the names of Ubuntu's driver packages end.

    Of a generic kernel newer than the system's own it is the one of hardware enablement.
    """
    parts = re.fullmatch(r"(\d+\.\d+)[^-]*(?:-\d[^-]*)?-([a-z][a-z0-9-]*)", kernel)
    if not parts:
        return "generic"
    series, flavour = parts.groups()
    row = SYSTEMS.get(system)
    if row and system.startswith("ubuntu") and flavour == "generic" and series != row.kernel:
        return f"generic-hwe-{system.partition('-')[2]}"
    return flavour


def inventory_text(
    serving: Sequence[Answered], balancers: Sequence[Answered] = (), monitors: Sequence[Answered] = ()
) -> str:
    """An inventory in Python: a group for each kind of serving machine, and one each for balancers and monitors."""
    is_fleet, groups = bool(balancers or monitors), _groups(serving)
    words = ["Embedder", "Machine", "Reranker", "Server", "Weights"]
    words += [*(["Balancer", "Route"] if balancers else []), *(["Monitor"] if monitors else [])]
    first, *more = [machine.target.host for machine in (*serving, *balancers, *monitors)]
    title = (
        f"{first} and {len(more)} more, as they described themselves" if more else f"{first}, as it described itself"
    )
    parts = [HEAD.format(title=title, words=", ".join(["LLM", *sorted(words)]))]
    parts += [_serving(name, machines, is_fleet, bool(balancers)) for name, machines in groups.items()]
    parts += [_routes(groups), _outside("balancers", balancers, "Balancer", ", routes=_routes")] if balancers else []
    parts += [_outside("monitors", monitors, "Monitor")] if monitors else []
    return "\n".join(parts)


def _groups(serving: Iterable[Answered]) -> dict[str, list[Answered]]:
    """Machines by the name of their group: the card's, with a number for a further kind of machine with that card."""
    kinds: dict[Kind, list[Answered]] = {}
    for machine in serving:
        kinds.setdefault(machine.kind, []).append(machine)
    groups: dict[str, list[Answered]] = {}
    for kind, machines in kinds.items():
        name = re.sub(r"[^a-z0-9]+", "_", kind.gpu) or "hosts"
        groups[name if name not in groups else f"{name}_{len(groups) + 1}"] = machines
    return groups


def _serving(name: str, machines: Sequence[Answered], is_fleet: bool, is_balanced: bool) -> str:
    kind = machines[0].kind
    return GROUP.format(
        name=name,
        hosts="".join(_host(machine, is_fleet) for machine in machines),
        pool=f'        "pool": "{name}",\n' if is_balanced else "",
        os=kind.os,
        os_remark="" if kind.os in SYSTEMS else "  # not provisioned by this project",
        gpu=kind.gpu,
        gpu_remark="" if kind.gpu else f"  # found {kind.pci_id}, which is not in the catalog",
        gpus=kind.gpus,
        memory_mib=min(machine.memory_mib for machine in machines),
        disk_mib=min(machine.disk_mib for machine in machines),
        kernel_flavour=kind.kernel_flavour,
        secure_boot=kind.secure_boot,
        nvswitch=kind.nvswitch,
        release=DEFAULT_RELEASE,
        server=BALANCED if is_balanced else ALONE,
    )


def _routes(groups: Iterable[str]) -> str:
    """The routes of every balancer, two ports each, ten apart."""
    ports = range(FIRST_ROUTE_PORT, 65_536, 10)
    routes = (
        f'    Route(pool="{pool}", http_port={port}, grpc_port={port + 1}, hold_seconds=60),\n'
        for pool, port in zip(groups, ports, strict=False)
    )
    return f"_routes = (\n{''.join(routes)})\n"


def _outside(name: str, machines: Iterable[Answered], declared: str, more: str = "") -> str:
    """The group of machines that serve nothing themselves; each is told its own address."""
    hosts = ""
    for machine in machines:
        told = f'{declared}(os="{machine.kind.os}", address="{machine.address}"{more})'
        pairs = [*_login(machine.target), f'"{declared.lower()}": {told}']
        hosts += f'        ("{machine.target.host}", {{{", ".join(pairs)}}}),\n'
    return f'{name} = (\n    [\n{hosts}    ],\n    {{"_sudo": True}},\n)\n'


def _host(machine: Answered, is_fleet: bool) -> str:
    pairs = _login(machine.target)
    if is_fleet and machine.address:
        pairs.append(f'"peer_address": "{machine.address}"')
    data = ", ".join(pairs)
    return f'        ("{machine.target.host}", {{{data}}}),\n' if data else f'        "{machine.target.host}",\n'


def _login(target: Target) -> list[str]:
    user = [f'"ssh_user": "{target.user}"'] if target.user else []
    return user + ([f'"ssh_port": {target.port}'] if target.port != SSH_PORT else [])


HEAD = '''"""{title}. Change the models, then read the plan."""

from deploy.spec import {words}

gpt_oss = LLM(
    name="gpt-oss-20b",
    checkpoint="gpt-oss-20b",
    weights=Weights.hub("openai/gpt-oss-20b", "6cee5e81ee83917806bbde320786a8fb61efebee"),
)
reranker = Reranker(
    name="bge-reranker-large",
    checkpoint="bge-reranker-large",
    weights=Weights.hub("BAAI/bge-reranker-large", "55611d7bca2a7133960a6d3b71e083071bbfc312"),
)
embedder = Embedder(
    name="nomic-embed-text-v2-moe",
    checkpoint="nomic-embed-text-v2-moe",
    weights=Weights.hub("nomic-ai/nomic-embed-text-v2-moe", "1066b6599d099fbb93dfcb64f9c37a7c9e503e85"),
)
'''

ALONE = 'Server(name="main", models=(reranker, embedder, gpt_oss)),'
BALANCED = """
            Server(name="main", address="0.0.0.0", protection="balancer", models=(reranker, embedder, gpt_oss)),
        """

GROUP = """{name} = (
    [
{hosts}    ],
    {{
        "_sudo": True,
{pool}        "machine": Machine(
            os="{os}",{os_remark}
            gpu="{gpu}",{gpu_remark}
            gpus={gpus},
            memory_mib={memory_mib},
            disk_mib={disk_mib},
            kernel_flavour="{kernel_flavour}",
            secure_boot={secure_boot},
            nvswitch={nvswitch},
        ),
        "release": "{release}",
        "image_digest": "",
        "servers": ({server}),
    }},
)
"""
