"""The inventory that `enginehouse init` writes, from the machines' answers.

Equal machines become a group, which serves the models of the shipped inventory. Behind a balancer a group is a pool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from deploy.catalog import DEFAULT_RELEASE, GPUS, SYSTEMS
from deploy.inventory.first_models import SHIPPED, SHIPPED_VARIABLES, Named, declared_models, variables_of
from deploy.inventory.targets import SSH_PORT, Target
from deploy.refusals import Refusal, inside_quotes, refuse_all, shortened, source

FIRST_ROUTE_PORT = 8443
ASKING = "asking; no file was written, and no host was changed"


def _of_form(form: str) -> Callable[[str], bool]:
    return lambda answer: re.fullmatch(form, answer) is not None


def _is_address(answer: str) -> bool:
    try:
        return str(IPv4Address(answer)) == answer
    except ValueError:
        return False


ANSWERS: dict[str, tuple[Callable[[str], bool], str]] = {
    "os": (_of_form(r"[a-z0-9._-]{1,64}"), "ID and VERSION_ID of /etc/os-release, such as ubuntu-24.04"),
    "kernel": (_of_form(r"[A-Za-z0-9.+~_-]{1,128}"), "what `uname -r` prints, such as 6.8.0-45-generic"),
    "gpu": (_of_form(r"[0-9a-f]{4}:[0-9a-f]{4}"), "a PCI id, such as 10de:2330"),
    "bridge": (_of_form(r"[0-9a-f]{4}"), "the vendor of a PCI id, such as 10de"),
    "memory_kib": (_of_form(r"[0-9]{1,12}"), "a number of KiB"),
    "disk_mib": (_of_form(r"[0-9]{1,12}"), "a number of MiB"),
    "address": (_is_address, "an IPv4 address"),
    "secure_boot": (_of_form(r"[0-9]{1,3}"), "a byte of the firmware, 0 or 1"),
}
"""The accepted form of each answer of a machine, by the answer's name: a check, and its description."""
MOST_GPUS = 64


@dataclass(frozen=True)
class Kind:
    """The properties that equal machines share."""

    os: str
    pci_id: str
    gpus: int
    kernel_flavour: str
    secure_boot: bool
    nvswitch: bool

    @property
    def gpu(self) -> str:
        return next((gpu.name for gpu in GPUS.values() if gpu.pci_id == self.pci_id), "")


@dataclass(frozen=True)
class Answered:
    """A machine, and the answers of its commands."""

    target: Target
    kind: Kind
    memory_mib: int
    disk_mib: int
    address: str
    """The address it sends from, which balancers and monitors reach it at; empty without IPv4."""

    @classmethod
    def of(cls, target: Target, answers: str) -> Answered:
        """A machine from its answers, one `name=value` a line; a login may print lines of other names around them.

        Raises: a Refusal for an answer in an unexpected form: its words go into a file that Python runs.
        """
        lines = [line.partition("=")[::2] for line in answers.split("\n")]
        pairs = [(name, value) for name, value in lines if name in ANSWERS]
        refuse_all(_strange(target, name, value) for name, value in pairs if value and not ANSWERS[name][0](value))
        values = {name: value for name, value in pairs if value}
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
        if count > MOST_GPUS:
            raise _strange(target, "gpu", f"{count} GPUs")
        memory_mib, disk_mib = int(values.get("memory_kib", 0)) // 1024, int(values.get("disk_mib", 0))
        return cls(target, kind, memory_mib, disk_mib, values.get("address", ""))


def _strange(target: Target, name: str, answer: str) -> Refusal:
    return Refusal(
        f"{target} gave no answer to the question for `{name}` that can be used",
        facts={"where": str(target), "seen": f"{name}={shortened(answer)}", "wanted": ANSWERS[name][1]},
        attempt="check the machine first: it may belong to somebody else; or declare it yourself, in a copy of "
        "inventories/h100.py",
        state=ASKING,
        kind="strange-answer",
    )


def kernel_flavour(system: str, kernel: str) -> str:
    """The flavour of a running kernel (`uname -r`), as the names of Ubuntu's driver packages end.

    A generic kernel newer than the system's default has the flavour of hardware enablement.
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
    serving: Sequence[Answered],
    balancers: Sequence[Answered] = (),
    monitors: Sequence[Answered] = (),
    models: Sequence[Named] = (),
    endpoint: str = "",
) -> str:
    """An inventory in Python: a group for each kind of serving machine, and one each for balancers and monitors.

    They serve `models`, or the shipped inventory's models if `models` is empty. `endpoint` is a mirror of the hub.
    """
    is_fleet, groups = bool(balancers or monitors), _groups(serving)
    classes = {model.kind for model in models} or {"Embedder", "LLM", "Reranker", "Weights"}
    words = ["Machine", "Server", *sorted(classes - {"LLM"}), *(["Hub"] if endpoint else [])]
    words += [*(["Balancer", "Route", "Secret"] if balancers else []), *(["Monitor"] if monitors else [])]
    variables = variables_of(models) if models else SHIPPED_VARIABLES
    declared = declared_models(models, variables) if models else SHIPPED
    first, *more = [machine.target.host for machine in (*serving, *balancers, *monitors)]
    title = (
        f"{first} and {len(more)} more, as they described themselves" if more else f"{first}, as it described itself"
    )
    head = HEAD.format(
        title=inside_quotes(title),
        advice="Change the models, then read the plan" if not models else "Read the plan",
        words=", ".join([*(["LLM"] if "LLM" in classes else []), *sorted(words)]),
    )
    parts = [head + declared]
    hub = f'        "hub": Hub(endpoint={source(endpoint)}),\n' if endpoint else ""
    parts += [_serving(*group, is_fleet, bool(balancers), variables, hub) for group in groups.items()]
    if balancers:
        parts += [_routes(groups), _outside("balancers", balancers, "Balancer", ", routes=_routes, **_asks")]
    parts += [_outside("monitors", monitors, "Monitor")] if monitors else []
    return "\n".join(parts)


def _groups(serving: Iterable[Answered]) -> dict[str, list[Answered]]:
    """Machines by the name of their group: the card's name, with a number for each further kind with that card."""
    kinds: dict[Kind, list[Answered]] = {}
    for machine in serving:
        kinds.setdefault(machine.kind, []).append(machine)
    groups: dict[str, list[Answered]] = {}
    for kind, machines in kinds.items():
        name = re.sub(r"[^a-z0-9]+", "_", kind.gpu) or "hosts"
        groups[name if name not in groups else f"{name}_{len(groups) + 1}"] = machines
    return groups


def _serving(
    name: str, machines: Sequence[Answered], is_fleet: bool, is_balanced: bool, variables: Sequence[str], hub: str
) -> str:
    kind = machines[0].kind
    served = f"({', '.join(variables)}{',' if len(variables) == 1 else ''})"
    return GROUP.format(
        name=name,
        hosts="".join(_host(machine, is_fleet) for machine in machines),
        pool=f'        "pool": {source(name)},\n' if is_balanced else "",
        os=source(kind.os),
        os_remark="" if kind.os in SYSTEMS else "  # not provisioned by this project",
        gpu=source(kind.gpu),
        gpu_remark="" if kind.gpu else _own_card(kind),
        gpus=source(kind.gpus),
        memory_mib=source(min(machine.memory_mib for machine in machines)),
        disk_mib=source(min(machine.disk_mib for machine in machines)),
        kernel_flavour=source(kind.kernel_flavour),
        secure_boot=source(kind.secure_boot),
        nvswitch=source(kind.nvswitch),
        hub=hub,
        release=source(DEFAULT_RELEASE),
        server=(BALANCED if is_balanced else ALONE).format(models=served),
    )


def _own_card(kind: Kind) -> str:
    """A remark that says how to declare a card that the catalog lacks."""
    pci_id = inside_quotes(kind.pci_id)
    return f'  # found {pci_id}, not in the catalog: give a name and card=GPU(pci_id="{pci_id}", sm="…", mib=…)'


def _routes(groups: Iterable[str]) -> str:
    """The routes of every balancer, each with two ports; the routes' ports differ by ten."""
    ports = range(FIRST_ROUTE_PORT, 65_536, 10)
    routes = (
        f"    Route(pool={source(pool)}, http_port={port}, grpc_port={port + 1}, hold_seconds=60),\n"
        for pool, port in zip(groups, ports, strict=False)
    )
    return f"_routes = (\n{''.join(routes)})\n{ASKS}"


def _outside(name: str, machines: Iterable[Answered], declared: str, more: str = "") -> str:
    """The group of machines without servers; each gets its own address."""
    hosts = ""
    for machine in machines:
        declaration = f"{declared}(os={source(machine.kind.os)}, address={source(machine.address)}{more})"
        pairs = [*_login(machine.target), f"{source(declared.lower())}: {declaration}"]
        hosts += f"        ({source(machine.target.host)}, {{{', '.join(pairs)}}}),\n"
    return f'{name} = (\n    [\n{hosts}    ],\n    {{"_sudo": True}},\n)\n'


def _host(machine: Answered, is_fleet: bool) -> str:
    pairs = _login(machine.target)
    if is_fleet and machine.address:
        pairs.append(f'"peer_address": {source(machine.address)}')
    data, host = ", ".join(pairs), source(machine.target.host)
    return f"        ({host}, {{{data}}}),\n" if data else f"        {host},\n"


def _login(target: Target) -> list[str]:
    user = [f'"ssh_user": {source(target.user)}'] if target.user else []
    return user + ([f'"ssh_port": {target.port}'] if target.port != SSH_PORT else [])


HEAD = '''"""{title}. {advice}."""

from deploy.spec import {words}

'''

ALONE = 'Server(name="main", models={models}),'
ASKS = """# Each client shows a key of `enginehouse key new`, over TLS. Or open_to_all=True, and none of these.
_asks = {"keys": "file", "certificate": "keys/edge.pem", "certificate_key": Secret.command("cat", "keys/edge.key")}
"""
BALANCED = """
            Server(name="main", address="0.0.0.0", protection="balancer", models={models}),
        """

GROUP = """{name} = (
    [
{hosts}    ],
    {{
        "_sudo": True,
{pool}        "machine": Machine(
            os={os},{os_remark}
            gpu={gpu},{gpu_remark}
            gpus={gpus},
            memory_mib={memory_mib},
            disk_mib={disk_mib},
            kernel_flavour={kernel_flavour},
            secure_boot={secure_boot},
            nvswitch={nvswitch},
        ),
{hub}        "release": {release},
        "image_digest": "",
        "servers": ({server}),
    }},
)
"""
