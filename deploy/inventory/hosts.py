"""Hosts that an Ansible inventory or Terraform already lists, as a pyinfra group takes them: names with SSH settings.

They list the hosts and their addresses. The models of a group are declared in Python, beside them. `deploy/io/hosts.py`
reads the files.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deploy.catalog.names import offer
from deploy.refusals import Refusal, refuse, refuse_all

Hosts = list[tuple[str, dict[str, Any]]]
"""(name, host data), as a group of a pyinfra inventory takes them."""

FIELDS = ("peer_address", "ssh_config_file", "ssh_hostname", "ssh_key", "ssh_port", "ssh_user")
"""Keys of host data with a host's address and login; Terraform's outputs use the same names."""

ADDRESSES = ("peer_address", "ssh_hostname")
ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
TRANSLATED = {
    "ansible_host": "ssh_hostname",
    "ansible_ssh_host": "ssh_hostname",
    "ansible_port": "ssh_port",
    "ansible_ssh_port": "ssh_port",
    "ansible_user": "ssh_user",
    "ansible_ssh_user": "ssh_user",
    "ansible_private_key_file": "ssh_key",
    "ansible_ssh_private_key_file": "ssh_key",
    "peer_address": "peer_address",
}
"""Variables and settings; if two variables name one setting, the one that Ansible's ssh plugin prefers is last."""

ANSIBLE_VARIABLES = (*TRANSLATED, *ARGUMENTS, "ansible_connection")
SSH_CONNECTIONS = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh")
NAME = re.compile(r"[\w.:%-]+")
"""A host's name or address, IPv6 without brackets."""


def hosts_of_ansible(read: Mapping[str, Any], group: str, file: str, ssh_config_file: str = "") -> Hosts:
    """The hosts of a group of an Ansible inventory; `read` is the result of `ansible_inventory.read` for `file`.

    Passwords are not taken over: a key or an agent logs in. With `ssh_config_file` no ssh argument is read.
    Raises: a Refusal for an unknown group, for a group without hosts, and for every mistake in its hosts.
    """
    groups, place = read["groups"], f"{file}: {group}"
    if group not in groups:
        attempt = offer(group, sorted(name for name, hosts in groups.items() if hosts))
        raise _unknown("group", group, file, f"groups {_listed(groups)}", "a group of that inventory", attempt)
    hosts: Hosts = []
    problems: list[Refusal] = []
    for name in groups[group]:
        values = read["hosts"][name]
        data = {TRANSLATED[key]: values[key] for key in TRANSLATED if values.get(key) not in (None, "")}
        problems += _connection_problems(name, values, file)
        if ssh_config_file:
            data["ssh_config_file"] = ssh_config_file
        else:
            own, wrong = _configuration(name, values, file)
            data |= own
            problems += wrong
        hosts.append((name, data))
    return _confirmed(hosts, place, problems, f"ansible-inventory -i {file} --graph")


def hosts_of_terraform(document: object, output: str, file: str) -> Hosts:
    """The hosts of an output of Terraform; `document` is the output of `terraform output -json` in `file`.

    An output is a name, a list of names, a map from names to addresses, or a map from names to objects with `FIELDS`.
    Raises: a Refusal for another document, an unknown output, an output without hosts, or mistakes in its hosts.
    """
    if not _are_outputs(document):
        raise not_terraform(file, _seen_instead(document))
    assert isinstance(document, dict)
    if output not in document:
        attempt = offer(output, sorted(document))
        raise _unknown("output", output, file, f"outputs {_listed(document)}", "an output of Terraform", attempt)
    place = f"{file}: {output}"
    problems: list[Refusal] = []
    hosts = list(_entries(document[output]["value"], place, problems))
    return _confirmed(hosts, place, problems, f"terraform output -json {output}")


def not_terraform(file: str, seen: str) -> Refusal:
    return refuse(
        "not-terraform-output",
        f"{file} is not output of `terraform output -json`",
        where=file,
        seen=seen,
        wanted='all outputs, as {"h100": {"sensitive": false, "type": …, "value": …}}',
        attempt=f"where Terraform's files are: terraform output -json > {file.rpartition('/')[2]}, and copy it here",
    )


def _are_outputs(document: object) -> bool:
    return (
        isinstance(document, dict)
        and bool(document)
        and all(isinstance(entry, dict) and {"value", "sensitive"} <= set(entry) for entry in document.values())
    )


def _seen_instead(document: object) -> str:
    if document == {}:
        return "no output at all"
    if isinstance(document, dict) and "terraform_version" in document:
        return "Terraform's state"
    return "the value of a single output, or another program's JSON"


def _entries(value: object, place: str, problems: list[Refusal]) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, str):
        yield value, {}
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            if isinstance(entry, str):
                yield entry, {}
            else:
                problems.append(_no_host(place, f"entry {number} is {_kind(entry)}"))
    elif isinstance(value, dict):
        for name, entry in value.items():
            if isinstance(entry, str):
                yield name, {"ssh_hostname": entry}
            elif isinstance(entry, dict):
                yield name, {key: field for key, field in entry.items() if field is not None or key in ADDRESSES}
            else:
                problems.append(_no_host(place, f"{name} is {_kind(entry)}"))
    else:
        problems.append(_no_host(place, f"the output is {_kind(value)}"))


def _kind(value: object) -> str:
    names = {bool: "a truth value", dict: "an object", float: "a number", int: "a number", list: "a list"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _confirmed(hosts: Hosts, place: str, problems: list[Refusal], attempt: str) -> Hosts:
    """The hosts with ports as numbers. Raises: a Refusal for all problems together."""
    refused = [*problems, *(problem for name, data in hosts for problem in _host_problems(name, data, place))]
    if not hosts and not refused:
        refused = [
            refuse(
                "names-no-host",
                f"{place} names no host",
                where=place,
                seen="no host",
                wanted="a host at least",
                attempt=f"look what it holds: {attempt}",
            )
        ]
    refuse_all([*refused, *([] if refused else _twice(hosts, place))])
    return [(name, data | ({"ssh_port": int(data["ssh_port"])} if "ssh_port" in data else {})) for name, data in hosts]


def _host_problems(name: str, data: Mapping[str, Any], place: str) -> Iterator[Refusal]:
    if not NAME.fullmatch(name):
        yield _no_host(place, f"{name!r} as a name")
    for key, value in data.items():
        if key not in FIELDS:
            yield _unknown(
                "field", key, place, f"`{key}` of {name}", "a field that says where a host is", offer(key, FIELDS)
            )
        elif key == "ssh_port" and not (str(value).isdecimal() and 0 < int(value) < 65_536):
            yield _no_place(name, key, value, place, "a port, 1 to 65535")
        elif key in ADDRESSES and not (isinstance(value, str) and NAME.fullmatch(value)):
            yield _no_place(name, key, value, place, "a name or an address")
        elif not isinstance(value, str | int) or value == "":
            yield _no_place(name, key, value, place, "a text")


def _twice(hosts: Hosts, place: str) -> Iterator[Refusal]:
    """A refusal for each repeated name, and for each address that two names share."""
    names, places = set[str](), dict[tuple[str, str, str], str]()
    for name, data in hosts:
        at = (str(data.get("ssh_hostname") or name).lower(), str(data.get("ssh_port", 22)))
        known = places.setdefault((*at, str(data.get("ssh_config_file", ""))), name)
        if name in names or known != name:
            first = "" if name in names else f"as {known} and as {name}, both "
            yield refuse(
                "host-twice",
                f"{place} names {name} twice" if name in names else f"{place} names one machine twice: {known}, {name}",
                where=place,
                seen=f"{first}at {at[0]}, port {at[1]}",
                wanted="each machine once",
                attempt=f"take {name} out, or correct its address",
            )
        names.add(name)


def _configuration(name: str, values: Mapping[str, Any], file: str) -> tuple[dict[str, str], list[Refusal]]:
    """The ssh_config file that Ansible's ssh arguments name, and a refusal for any further arguments."""
    for key in ARGUMENTS:
        words = str(values.get(key) or "").split()
        if len(words) == 2 and words[0] == "-F":
            return {"ssh_config_file": words[1]}, []
        if words:
            return {}, [
                refuse(
                    "ssh-arguments",
                    f"{key} of {name} is for OpenSSH, and pyinfra logs in without it",
                    where=f"{file}: {name}.{key}",
                    seen=" ".join(words),
                    wanted="a jump host, known_hosts or an agent in one ssh_config, read by pyinfra, rsync and pytest",
                    attempt="write them there, then: ansible_hosts(…, ssh_config_file=FILE)",
                )
            ]
    return {}, []


def _connection_problems(name: str, values: Mapping[str, Any], file: str) -> Iterator[Refusal]:
    connection = str(values.get("ansible_connection") or "ssh")
    if connection not in SSH_CONNECTIONS:
        yield refuse(
            "not-over-ssh",
            f"{name} is not reached over SSH",
            where=f"{file}: {name}.ansible_connection",
            seen=connection,
            wanted="ssh",
            attempt=f"take {name} out of the group, or name another group",
        )


def _no_host(place: str, seen: str) -> Refusal:
    return refuse(
        "no-host-name",
        f"{place} has an entry that names no host",
        where=place,
        seen=seen,
        wanted='["10.0.0.11"], {"h100-01": "10.0.0.11"} or {"h100-01": {"ssh_hostname": "10.0.0.11"}}',
        attempt="correct the output in Terraform, apply, and record it again",
    )


def _no_place(name: str, key: str, value: object, place: str, wanted: str) -> Refusal:
    return refuse(
        "no-place",
        f"`{key}` of {name} does not say where it is",
        where=f"{place}: {name}.{key}",
        seen=repr(value),
        wanted=wanted,
        attempt=f"correct `{key}` of {name} there",
    )


def _unknown(what: str, word: str, place: str, seen: str, wanted: str, attempt: str) -> Refusal:
    return refuse(
        f"unknown-{what}",
        f"{place} has no {what} `{word}`" if what != "field" else f"{place}: no {what} is called `{word}`",
        where=place,
        seen=seen,
        wanted=wanted,
        attempt=attempt,
    )


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:8]) + (f" and {len(ordered) - 8} more" if len(ordered) > 8 else "")
