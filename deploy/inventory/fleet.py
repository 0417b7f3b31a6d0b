"""An inventory as typed hosts. Reads pyinfra's inventory by its shape only (`.name`, `.data.dict()`, `.groups`).

A host that cannot be read (an unknown key, a value of the wrong type, a secret typed out) becomes a refusal beside the
readable hosts, so that the plan reports everything together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from deploy.catalog.names import offer
from deploy.inventory.guides import translate
from deploy.inventory.knobs import SUFFIX, Table, settings_problems
from deploy.inventory.logins import READ as CONNECTION_KEYS
from deploy.inventory.logins import login_problems, one_machine_twice
from deploy.inventory.misplaced_keys import elsewhere, inside
from deploy.inventory.plain import walkable
from deploy.inventory.promotion import promoted
from deploy.inventory.secrets import typed_out_problems
from deploy.inventory.slips import release_of_number
from deploy.inventory.support import SUPPORT_KEYS, support_data
from deploy.inventory.texts import unsafe_texts, words_for_nothing
from deploy.inventory.types import hints_of, mistyped, with_default
from deploy.inventory.words import MEANT, word_problems
from deploy.refusals import Refusal, refuse, renamed, server_at
from deploy.spec import Balancer, BalancerHost, Host, Monitor, MonitorHost, Rollout

SPEC_KEYS = tuple(field.name for field in fields(Host) if field.name not in ("name", "groups"))
FLEET_KEYS = (
    "rollout",
    "expect",
    "remove",
    "run",
    "events",
    "json",
    "report",
    "balancer",
    "monitor",
    "only",
    "promote",
)
PARTS = ("gateway",)
"""Parts that `--data only=PART` can name."""
CONNECTOR_PREFIXES = ("_", "ssh_", "fake_", "own_")
"""Prefixes of keys that pyinfra and its connectors read, and `own_` for keys of an operator's own roles."""

DEFAULT_ROLLOUT = Rollout()


@dataclass(frozen=True)
class Fleet:
    """The readable hosts, sorted by name, one rollout for all, and the refusals of everything unreadable."""

    hosts: tuple[Host, ...]
    rollout: Rollout = DEFAULT_ROLLOUT
    unread: tuple[tuple[str, Refusal], ...] = ()
    """(host name, refusal)."""
    expect: str = ""
    balancers: tuple[BalancerHost, ...] = ()
    only: str = ""
    monitors: tuple[MonitorHost, ...] = ()
    remarks: tuple[str, ...] = ()
    """Sentences about settings that the plan removed from hosts without being asked."""
    gets_gateway: bool = False
    """True if the inventory does not mention a gateway for its only serving host: the plan adds one."""

    @classmethod
    def of(cls, inventory: Iterable[Any], knobs: Table | None = None) -> Fleet:
        """The fleet of a pyinfra inventory, or of anything that iterates over hosts with name, data and groups.

        Without `knobs` the settings of roles are taken as they are.
        """
        hosts, balancers, monitors, unread, rollouts, expected, places = [], [], [], [], [], [], []
        parts, promotions, says_gateway = list[str](), list[str](), False
        for source in sorted(inventory, key=lambda host: str(host.name)):
            data, unreadable = walkable(_with_typed_release(source, _data_of(source)))
            unread += [(source.name, problem) for problem in unreadable]
            unread += [(source.name, problem) for problem in login_problems(source.name, data)]
            unread += [(source.name, problem) for problem in word_problems(data)]
            places.append((source.name, place_of(source.name, data)))
            says_gateway |= "gateway" in data
            rollouts.append(data.pop("rollout", DEFAULT_ROLLOUT))
            expected.append(str(data.pop("expect", "") or ""))
            parts.append(str(data.get("only") or ""))
            promotions.append(str(data.get("promote") or ""))
            groups = tuple(getattr(source, "groups", ()))
            if "balancer" in data:
                balancer, problems = read_balancer(source.name, data, groups, knobs)
                unread += [(source.name, problem) for problem in [*problems, *_rollout_problems(rollouts)]]
                balancers += [balancer] if balancer else []
                continue
            if "monitor" in data:
                monitor, problems = read_monitor(source.name, data, groups, knobs)
                unread += [(source.name, problem) for problem in [*problems, *_rollout_problems(rollouts)]]
                monitors += [monitor] if monitor else []
                continue
            host, problems = read_host(source.name, data, groups, knobs)
            unread += [(source.name, problem) for problem in [*problems, *_rollout_problems(rollouts)]]
            hosts += [host] if host else []
        rollout = rollouts[0] if rollouts and not _rollout_problems(rollouts) else DEFAULT_ROLLOUT
        unread += [("", problem) for problem in one_machine_twice(places)]
        expect = next(filter(None, expected), "")
        only = next(filter(None, parts), "")
        gets_gateway = bool(hosts) and len(places) == 1 + len(monitors) and not says_gateway
        unread += [("", problem) for problem in _part_problems(only)]
        promoted_hosts, unpromoted = promoted(tuple(hosts), next(filter(None, promotions), ""))
        unread += unpromoted
        return cls(
            promoted_hosts, rollout, tuple(unread), expect, tuple(balancers), only, tuple(monitors), (), gets_gateway
        )


def read_host(
    name: str, data: Mapping[str, Any], groups: tuple[str, ...] = (), knobs: Table | None = None
) -> tuple[Host | None, list[Refusal]]:
    """The typed host or None, and the refusals; a host may have refusals too."""
    values = {key: value for key, value in data.items() if key in SPEC_KEYS}
    problems = [*_unknown_keys(data, knobs), *settings_problems(data, knobs or {}), *_missing_keys(values)]
    hints = hints_of(Host)
    declared = {field.name: field for field in fields(Host)}
    wrong = [
        with_default(problem, declared[key], "Host")
        for key, value in values.items()
        for problem in mistyped(value, hints[key], key)
    ]
    host = None if wrong or _missing_keys(values) else Host(name=name, groups=groups, **values)
    typed = typed_out_problems({key: value for key, value in data.items() if key in SPEC_KEYS or key.endswith(SUFFIX)})
    places = {problem.facts["where"] for problem in wrong}  # such a secret gets this refusal only
    typed_out = [problem for problem in typed if problem.facts["where"] not in places]
    places |= {problem.facts["where"] for problem in typed_out}
    unsafe = [problem for key, value in values.items() for problem in unsafe_texts(value, key, places)]
    hollow = (problem for key, value in values.items() for problem in words_for_nothing(value, key, hints[key]))
    unsafe += [problem for problem in hollow if problem.facts["where"] not in places]
    problems += _port_of_ssh(data, host) if host else []
    return host, [*problems, *wrong, *typed_out, *unsafe, *translate(data, host)]


def _port_of_ssh(data: Mapping[str, Any], host: Host) -> list[Refusal]:
    return [
        refuse(
            "port-twice",
            f"server {server.name}: port {data['ssh_port']} is SSH's on this host",
            where=server_at(server.name, field),
            seen=f"ssh_port={data['ssh_port']}, {field}={data['ssh_port']}",
            wanted="a port that no other program uses",
            attempt=f"leave {field} out, or name another port",
        )
        for server in host.servers
        for field in ("http_port", "grpc_port", "metrics_port")
        if getattr(server, field) == data.get("ssh_port")
    ]


def read_balancer(
    name: str, data: Mapping[str, Any], groups: tuple[str, ...] = (), knobs: Table | None = None
) -> tuple[BalancerHost | None, list[Refusal]]:
    """The typed balancer, or None with the reasons. Keys of its groups that only concern GPU hosts are ignored."""
    problems = _key_problems(name, data, knobs, "balancer", Balancer, ("machine", "servers", "pool", "monitor"))
    if problems:
        return None, problems
    return BalancerHost(name=name, balancer=data["balancer"], groups=groups, **support_data(data)), []


def read_monitor(
    name: str, data: Mapping[str, Any], groups: tuple[str, ...] = (), knobs: Table | None = None
) -> tuple[MonitorHost | None, list[Refusal]]:
    """The typed monitor, or None with the reasons. Keys of its groups that only concern GPU hosts are ignored."""
    problems = _key_problems(name, data, knobs, "monitor", Monitor, ("machine", "servers", "pool"))
    if problems:
        return None, problems
    return MonitorHost(name=name, monitor=data["monitor"], groups=groups, **support_data(data)), []


def _key_problems(
    name: str, data: Mapping[str, Any], knobs: Table | None, key: str, declared: type, others: tuple[str, ...]
) -> list[Refusal]:
    """Refusals for the data of a support host: a balancer or a monitor."""
    problems = [*_unknown_keys(data, knobs), *settings_problems(data, knobs or {})]
    serving = [name for name in others if name in data]
    if serving:
        problems.append(
            refuse(
                f"{key}-with-servers",
                f"a {key} cannot serve models, and host {name} declares {', '.join(serving)}",
                where=serving[0],
                seen=f"`{key}` and `{serving[0]}`",
                wanted=f"a host that serves, or a {key}",
                attempt=f"put the {key} on a host of its own, in a group of its own",
            )
        )
    problems += mistyped(data[key], declared, key)
    problems += [
        problem for part, hint in SUPPORT_KEYS.items() if part in data for problem in mistyped(data[part], hint, part)
    ]
    problems += typed_out_problems({name: data[name] for name in (key, *SUPPORT_KEYS) if name in data})
    places = {problem.facts.get("where", "") for problem in problems}
    problems += [problem for part in (key, *SUPPORT_KEYS) for problem in unsafe_texts(data.get(part), part, places)]
    return problems


def place_of(name: str, data: Mapping[str, Any]) -> tuple[str, int, str]:
    """Address, port and ssh_config file of a host: equal addresses behind two jump hosts are two machines."""
    config = str(data.get("ssh_config_file") or "")
    port = str(data.get("ssh_port") or 22)
    return str(data.get("ssh_hostname") or name).lower(), int(port) if port.isdecimal() else 0, config


def is_read(key: str) -> bool:
    return key in SPEC_KEYS or key in FLEET_KEYS or key in CONNECTION_KEYS or key.endswith(SUFFIX)


def _data_of(source: Any) -> dict[str, Any]:
    data = source.data
    return dict(data.dict() if hasattr(data, "dict") else data)


def _with_typed_release(source: Any, data: dict[str, Any]) -> dict[str, Any]:
    """`--data release=25.10` reaches us as the number 25.1: pyinfra reads command-line values as JSON.

    A number in the inventory file is refused, like any number instead of a text.
    """
    typed = getattr(getattr(source, "inventory", None), "override_data", {})
    if isinstance(typed, Mapping) and isinstance(typed.get("release"), float):
        data["release"] = release_of_number(typed["release"])
    return data


def _missing_keys(values: Mapping[str, Any]) -> list[Refusal]:
    required = [field.name for field in fields(Host) if field.default is MISSING and field.default_factory is MISSING]
    return [
        refuse(
            "missing-key",
            f"the inventory does not say `{key}`",
            where=key,
            seen="nothing",
            wanted=_EXAMPLES[key],
            attempt=f'add "{key}": {_EXAMPLES[key]} to the data of the host or of its group',
        )
        for key in required
        if key != "name" and key not in values
    ]


_EXAMPLES = {"machine": 'Machine(os="ubuntu-24.04", gpu="h100-80")', "servers": '(Server(name="main", models=(…,)),)'}


def _unknown_keys(data: Mapping[str, Any], knobs: Table | None) -> list[Refusal]:
    of_roles = [key for key in data if key.endswith(SUFFIX)] if knobs is None else [f"{role}{SUFFIX}" for role in knobs]
    known = (*SPEC_KEYS, *FLEET_KEYS, *of_roles)
    strange = [key for key in data if key not in known and not key.startswith(CONNECTOR_PREFIXES) and not key.isupper()]
    return [
        renamed(key, key)
        or refuse(
            "unknown-key",
            f"nothing reads the data key `{key}`",
            where=key,
            seen=f"`{key}`",
            wanted="a key of the spec, <role>_settings, a key of pyinfra, or one that starts with `own_`",
            attempt=MEANT.get(key) or elsewhere(key) or inside(key) or offer(key, known),
        )
        for key in strange
    ]


def _part_problems(only: str) -> list[Refusal]:
    if only in ("", *PARTS):
        return []
    return [
        refuse(
            "unknown-part",
            f"nothing can be deployed alone that is called {only!r}",
            where="only",
            seen=repr(only),
            wanted=", ".join(PARTS),
            attempt=f"--data only={PARTS[0]}, or everything without it",
        )
    ]


def _rollout_problems(rollouts: list[Any]) -> list[Refusal]:
    wrong = list(mistyped(rollouts[-1], Rollout, "rollout"))
    if wrong or rollouts[-1] == rollouts[0]:
        return wrong
    return [
        refuse(
            "two-rollouts",
            "one run has one rollout, and this inventory declares two",
            where="rollout",
            seen=f"{rollouts[-1]} here, {rollouts[0]} on the first host",
            wanted="the same value on every host",
            attempt="declare `rollout` once, in the data of the group `all`",
        )
    ]
