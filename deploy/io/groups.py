"""The groups of an inventory: each of a shape pyinfra reads, and no two that say different things of one host.

pyinfra takes the last group's word without a sign, and ends with a traceback over a group of another shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse

EXAMPLE = '(["h100-01.example.internal"], {"machine": Machine(…), "servers": (Server(…),)})'


def shape_problems(variables: Mapping[str, Any], file: str) -> Iterator[Refusal]:
    """A refusal for each public variable of an inventory that pyinfra would stumble over."""
    for name, value in variables.items():
        if name.startswith("_") or not isinstance(value, list | tuple):
            continue
        if isinstance(value, tuple) and not _is_group_with_data(value):
            yield _no_group(name, value, file)
        else:
            yield from _host_data_problems(name, value[0] if isinstance(value, tuple) else value, file)


def _is_group_with_data(value: tuple[Any, ...]) -> bool:
    """True if `value` is (hosts, data)."""
    return len(value) == 2 and isinstance(value[0], list | tuple) and isinstance(value[1], dict)


def _no_group(name: str, value: tuple[Any, ...], file: str) -> Refusal:
    kinds = ", ".join(type(item).__name__ for item in value[:3]) + (", …" if len(value) > 3 else "")
    are_names = bool(value) and all(isinstance(item, str) for item in value)
    attempt = f"{name} = [{', '.join(map(repr, value[:3]))}{', …' if len(value) > 3 else ''}]" if are_names else ""
    return refuse(
        "inventory-shape",
        f"`{name}` is a tuple and no group: pyinfra reads every public tuple as (hosts, data)",
        where=f"{file}: {name}",
        seen=f"a tuple of {kinds}" if value else "an empty tuple",
        wanted=f"{name} = {EXAMPLE}",
        attempt=attempt or f"call it _{name} where it is no group of hosts",
    )


def _host_data_problems(name: str, hosts: Iterable[Any], file: str) -> Iterator[Refusal]:
    for host in hosts:
        if isinstance(host, tuple) and not (len(host) == 2 and isinstance(host[0], str) and isinstance(host[1], dict)):
            yield refuse(
                "inventory-shape",
                f"a host of `{name}` is a tuple, and not (name, data)",
                where=f"{file}: {name}",
                seen=f"a tuple of {', '.join(type(item).__name__ for item in host) or 'nothing'}",
                wanted=f'{name} = [("h100-01.example.internal", {{"ssh_port": 2222}})]',
                attempt="write the host's name, then a dictionary of its data",
            )


def contradictions(inventory: Any, is_read: Callable[[str], bool]) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each key two groups of a host set differently, unless its own data or `--data` sets it."""
    settled = set(getattr(inventory, "override_data", {}))
    for host in inventory:
        above = settled | set(inventory.get_host_data(host.name))
        groups = [(name, inventory.get_group_data(name)) for name in dict.fromkeys(host.groups)]
        for key in sorted({key for _name, data in groups for key in data if is_read(key)} - above):
            values = [(name, data[key]) for name, data in groups if key in data]
            second_group = next((name for name, value in values if value != values[0][1]), "")
            if second_group:
                yield host.name, _contradiction(host.name, key, values[0][0], second_group)


def repeated_hosts(variables: Mapping[str, Any], is_read: Callable[[str], bool]) -> Iterator[Refusal]:
    """A refusal for each key that a host's own data, beside its name in two groups, sets differently."""
    first: dict[tuple[str, str], tuple[str, Any]] = {}
    for group, value in variables.items():
        if group.startswith("_") or not isinstance(value, list | tuple):
            continue
        hosts = value[0] if isinstance(value, tuple) else value
        for name, data in (host for host in hosts if isinstance(host, tuple)):
            for key in filter(is_read, data):
                known_group, known = first.setdefault((name, key), (group, data[key]))
                if known != data[key]:
                    yield _contradiction(name, key, known_group, group)


def _contradiction(host: str, key: str, group: str, second_group: str) -> Refusal:
    return refuse(
        "two-groups-disagree",
        f"{host} is in `{group}` and in `{second_group}`, and they set different `{key}`",
        where=key,
        seen=f"one value in `{group}`, another in `{second_group}`",
        wanted=f"one value of `{key}` for {host}",
        attempt=f'take {host} out of one group, or say "{key}" beside its name: ("{host}", {{"{key}": …}})',
    )
