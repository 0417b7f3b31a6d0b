"""The groups of an inventory: each in a shape that pyinfra reads, and no two with different data for one host.

pyinfra silently takes the last group's value, and ends with a traceback over a group of another shape.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.inventory.login_texts import hosts_in
from deploy.refusals import Refusal, described, refuse

EXAMPLE = '(["h100-01.example.internal"], {"machine": Machine(…), "servers": (Server(…),)})'

PLAIN = re.compile(r"[A-Za-z0-9][\w.:-]{0,252}")


def shape_problems(variables: Mapping[str, Any], file: str) -> Iterator[Refusal]:
    """A refusal for each group that pyinfra cannot read, or whose hosts it would lose or invent."""
    for name, value in variables.items():
        if name.startswith("_") or not isinstance(value, list | tuple):
            continue
        is_pair = isinstance(value, list) and [type(item) for item in value] == [list, dict]
        if is_pair or (isinstance(value, tuple) and not _is_group_with_data(value)):
            yield _no_group(name, value, file)
        else:
            hosts = value[0] if isinstance(value, tuple) else value
            yield from _host_data_problems(name, hosts, file)
            yield from _name_problems(name, hosts, file, is_group=isinstance(value, tuple))
    hosts_by_group = {name: set(_names(value)) for name, value in variables.items() if not name.startswith("_")}
    yield from _outside_all(hosts_by_group, file)
    yield from _texts_of_no_hosts(variables, hosts_by_group, file)


def _names(value: Any) -> list[str]:
    """The names of a group's hosts; none for a value that is no group."""
    is_group = isinstance(value, list) or (isinstance(value, tuple) and _is_group_with_data(value))
    hosts = (value[0] if isinstance(value, tuple) else value) if is_group else ()
    names = [host[0] if isinstance(host, tuple) and host else host for host in hosts]
    return [name for name in names if isinstance(name, str)]


def _outside_all(hosts_by_group: Mapping[str, set[str]], file: str) -> Iterator[Refusal]:
    """A refusal for hosts that a group named `all` leaves out: pyinfra takes its hosts for the whole inventory."""
    outside = sorted(set().union(*hosts_by_group.values()) - hosts_by_group["all"]) if hosts_by_group.get("all") else []
    if outside:
        yield refuse(
            "hosts-outside-all",
            f"pyinfra takes the hosts of `all` for the whole inventory, and {outside[0]} is not one of them",
            where=f"{file}: all",
            seen=f"{', '.join(outside[:4])}{', …' if len(outside) > 4 else ''} in other groups alone",
            wanted="every host in `all`, or no group of this name",
            attempt="another name for the group `all`",
        )


def _texts_of_no_hosts(
    variables: Mapping[str, Any], hosts_by_group: Mapping[str, set[str]], file: str
) -> Iterator[Refusal]:
    """A refusal for a public list of texts, which pyinfra takes for hosts, beside groups that have data."""
    has_files = any((folder / "group_data").is_dir() for folder in (Path(file).parent, Path()))
    is_plan = any(isinstance(value, tuple) and _names(value) and "machine" in value[1] for value in variables.values())
    for name, names in hosts_by_group.items():
        elsewhere = set().union(*(known for group, known in hosts_by_group.items() if group != name))
        are_texts = isinstance(variables[name], list) and all(isinstance(item, str) for item in variables[name])
        if are_texts and names and is_plan and not (has_files or "all" in variables or names & elsewhere):
            yield refuse(
                "list-of-no-hosts",
                f"pyinfra takes the texts of `{name}` for hosts, and no group has data for them",
                where=f"{file}: {name}",
                seen=f"a public list of {len(variables[name])}",
                wanted="hosts in a group with data, (hosts, data); other lists under a private name",
                attempt=f"_{name} = … if these are not hosts",
            )


def _name_problems(group: str, hosts: Iterable[Any], file: str, is_group: bool) -> Iterator[Refusal]:
    """A refusal for a host whose name is empty or not a text, usually because of an unset variable.

    pyinfra would leave the whole group out. A list with no text in it, such as a list of models, is not a group.
    """
    names = [host[0] if isinstance(host, tuple) and host else host for host in hosts]
    is_meant = is_group or any(isinstance(name, str) for name in names) or None in names
    for position, name in enumerate(names):
        if is_meant and not (isinstance(name, str) and name.strip()) and not isinstance(name, tuple):
            yield refuse(
                "nameless-host",
                f"host {position + 1} of `{group}` has no name",
                where=f"{file}: {group}",
                seen=repr(name) if isinstance(name, str) or name is None else described(name),
                wanted="the name or address of a host, a text; os.environ.get(…) of an unset variable is none",
                attempt=f"{group} = (TEXT.split(), …)   an empty line at the end is no host"
                if name == "" and position and position == len(names) - 1
                else f'("{name["name"]}", {{…}})   the name, then the data'
                if isinstance(name, dict) and PLAIN.fullmatch(str(name.get("name") or ""))
                else f"{group} = ([{', '.join(map(repr, name))}], …)   one list of names"
                if isinstance(name, list)
                and name
                and all(isinstance(word, str) and PLAIN.fullmatch(word) for word in name)
                else f"{group} = ([str(VALUE), …], …)   a name is a text"
                if name is not None and not isinstance(name, (str, bytes, int, float, dict, list))
                else f'{group} = (["h100-01.example.internal"], …); of a variable: os.environ["GPU_HOST"], which '
                "says so when it is unset",
            )


def no_group_reason(variables: Mapping[str, Any]) -> str:
    """The reason why no variable is a group of hosts; empty if one is."""
    reasons = []
    for name, value in variables.items():
        if name.startswith("__"):
            continue
        is_group = isinstance(value, list) or (isinstance(value, tuple) and _is_group_with_data(value))
        if is_group and not name.startswith("_"):
            hosts = value[0] if isinstance(value, tuple) else value
            if hosts and all(isinstance(host, str | tuple) for host in hosts):
                return ""
            reasons.append(f"`{name}` is {'a list without hosts' if hosts else 'an empty list'}")
        elif getattr(value, "__code__", None) and not name.startswith("_") and name != value.__name__:
            reasons.append(f"`{name}` is a function that is not called: {name} = {value.__name__}()")
        elif isinstance(value, type) and any(isinstance(item, list) for item in vars(value).values()):
            reasons.append(f"`{name}` is a class")
        elif hasattr(value, "cr_code"):
            reasons.append(f"`{name}` is a coroutine, which nothing awaits")
        elif is_group and isinstance(value, tuple):
            reasons.append(f"`{name}` begins with an underscore, which makes it private")
        elif (
            isinstance(value, dict)
            and not name.startswith("_")
            and any(isinstance(data, dict) for data in value.values())
        ):
            reasons.append(f"`{name}` is a dictionary")
    return "; ".join(reasons[:4])


def group_meant(variables: Mapping[str, Any]) -> str:
    """The group that a dictionary of hosts or a group in Ansible's form means; empty without one."""
    for name, value in variables.items():
        while isinstance(value, dict) and isinstance(children := value.get("children"), dict) and children:
            name, value = next(iter(children.items()))
        if name.startswith("_") or not isinstance(value, dict):
            continue
        hosts = value.get("hosts", value)
        names = hosts if isinstance(hosts, list | tuple) else ()
        pairs = hosts.items() if isinstance(hosts, dict) else ((host, None) for host in names)
        written = [_host_meant(host, data) for host, data in pairs]
        if written and all(written):
            shown = ", ".join(written[:3]) + (", …" if len(written) > 3 else "")
            return f"{name} = ([{shown}], {{…}})   hosts in a list, then the data of all"
    return ""


def _host_meant(name: Any, data: Any) -> str:
    """A host of a dictionary as an inventory has it; empty for anything else."""
    if not (isinstance(name, str) and PLAIN.fullmatch(name) and isinstance(data, dict | None)):
        return ""
    address = str((data or {}).get("ansible_host", ""))
    own = f'"ssh_hostname": "{address}"' if PLAIN.fullmatch(address) else "…"
    return f'("{name}", {{{own}}})' if data else f'"{name}"'


def _is_group_with_data(value: tuple[Any, ...]) -> bool:
    return len(value) == 2 and isinstance(value[0], list | tuple) and isinstance(value[1], dict)


def _as_group(name: str, value: tuple[Any, ...] | list[Any]) -> str:
    """The group that was probably meant by other parts, or by parts in another order; empty for other values."""
    kinds = [type(item) for item in value]
    if len(value) == 1 and isinstance(value[0], tuple) and _is_group_with_data(value[0]):
        return f"{name} = ([…], {{…}})   without a comma behind the last bracket"
    if kinds == [dict, list] or kinds == [list, dict]:
        return f"{name} = ([…], {{…}})   hosts, then their data, in round brackets"
    if kinds[:1] in ([set], [frozenset]) and kinds[1:] == [dict]:
        return f"{name} = ([{', '.join(sorted(map(repr, value[0])))}], {{…}})"
    if kinds == [str, dict] and (hosts := hosts_in(value[0]) or [f'"{value[0]}"']):
        return f"{name} = ([{', '.join(hosts)}], {{…}})   hosts stand in a list"
    if kinds[1:] == [dict] and isinstance(value[0], Iterable):
        return f"{name} = (list(…), {{…}})   hosts stand in a list"
    if kinds == [list]:
        return f"{name} = […]   without a comma behind the bracket"
    if kinds == [list, type(None)]:
        return f"{name} = ([…], {{**BASE, …}})   dict.update(), and a function without `return`, give None"
    if kinds[:1] == [list] and len(value) == 2 and isinstance(value[1], Mapping):
        return f"{name} = ([…], dict(…))   data stand in a dictionary"
    is_split = kinds[:1] == [list] and len(kinds) > 2 and set(kinds[1:]) == {dict}
    return f"{name} = ([…], {{…}})   all data in one dictionary" if is_split else ""


def _no_group(name: str, value: tuple[Any, ...] | list[Any], file: str) -> Refusal:
    kinds = ", ".join(type(item).__name__ for item in value[:3]) + (", …" if len(value) > 3 else "")
    are_names = bool(value) and all(isinstance(item, str) for item in value)
    attempt = f"{name} = [{', '.join(map(repr, value[:3]))}{', …' if len(value) > 3 else ''}]" if are_names else ""
    return refuse(
        "inventory-shape",
        f"`{name}` is a {type(value).__name__} and no group: pyinfra reads every public tuple as (hosts, data)",
        where=f"{file}: {name}",
        seen=f"a {type(value).__name__} of {kinds}" if value else "an empty tuple",
        wanted=f"{name} = {EXAMPLE}",
        attempt=attempt or _as_group(name, value) or f"call it _{name} if it is not a group of hosts",
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
                attempt=f'("{host[0]}", {{"ssh_hostname": "{host[1]}"}})'
                if len(host) == 2 and all(isinstance(word, str) and PLAIN.fullmatch(word) for word in host)
                else f'("{host[0]}", {{"ssh_port": {host[1]}}})'
                if len(host) == 2 and type(host[1]) is int and (host[1] == 22 or host[1] >= 1024)
                else f'"{"-".join(map(str, host))}"   a name is one text'
                if len(host) > 1 and all(isinstance(part, str | int) and PLAIN.fullmatch(str(part)) for part in host)
                else "write the host's name, then a dictionary of its data",
            )


def contradictions(inventory: Any, is_read: Callable[[str], bool]) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each key that two groups of a host set differently, unless its data or `--data` sets it."""
    overridden = set(getattr(inventory, "override_data", {}))
    for host in inventory:
        above = overridden | set(inventory.get_host_data(host.name))
        groups = [(name, inventory.get_group_data(name)) for name in dict.fromkeys(host.groups)]
        keys = {key for _name, data in groups for key in data if isinstance(key, str) and is_read(key)}
        for key in sorted(keys - above):
            values = [(name, data[key]) for name, data in groups if key in data]
            second_group = next((name for name, value in values if _differ(value, values[0][1])), "")
            if second_group:
                yield host.name, _contradiction(host.name, key, values[0][0], second_group)


def repeated_hosts(variables: Mapping[str, Any], is_read: Callable[[str], bool]) -> Iterator[Refusal]:
    """A refusal for each key that a host's own data sets differently in two groups."""
    first: dict[tuple[str, str], tuple[str, Any]] = {}
    for group, value in variables.items():
        if group.startswith("_") or not isinstance(value, list | tuple):
            continue
        hosts = value[0] if isinstance(value, tuple) else value
        for name, data in (host for host in hosts if isinstance(host, tuple)):
            for key in (key for key in data if isinstance(key, str) and is_read(key)):
                known_group, known = first.setdefault((name, key), (group, data[key]))
                if _differ(known, data[key]):
                    yield _contradiction(name, key, known_group, group)


def _differ(first: Any, second: Any) -> bool:
    try:
        return first is not second and bool(first != second)
    except Exception:  # an object of an unknown class may raise anything
        return True


def _contradiction(host: str, key: str, group: str, second_group: str) -> Refusal:
    return refuse(
        "two-groups-disagree",
        f"{host} is in `{group}` and in `{second_group}`, and they set different `{key}`",
        where=key,
        seen=f"one value in `{group}`, another in `{second_group}`",
        wanted=f"one value of `{key}` for {host}",
        attempt=f'take {host} out of one group, or say "{key}" beside its name: ("{host}", {{"{key}": …}})',
    )
