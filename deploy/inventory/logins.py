"""How hosts are logged in to: names and SSH settings, which are words of ssh and lines of ssh_config."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from deploy.refusals.errors import Refusal
from deploy.refusals.quoting import shortened
from deploy.refusals.refuse import refuse

HOST = re.compile(r"@?[A-Za-z0-9_][\w.:%/@+-]*", re.ASCII)
LOGIN = {
    "ssh_hostname": (re.compile(r"[A-Za-z0-9_:][\w.:%-]*", re.ASCII), "a name or an address"),
    "ssh_user": (re.compile(r"[A-Za-z0-9_][\w.@\\-]*\$?", re.ASCII), "the name of a user"),
    "ssh_port": (re.compile(r"[0-9]{1,5}"), "a port"),
    "ssh_strict_host_key_checking": (re.compile(r"accept-new|yes|no|off|ask"), "yes, accept-new, no, off or ask"),
    **dict.fromkeys(
        ("ssh_key", "ssh_config_file", "ssh_known_hosts_file"), (re.compile(r"[^-\"'][^\"']*"), "the path of a file")
    ),
}
"""Host data that becomes words of ssh's command line and lines of its configuration, and what each may be."""


def login_problems(name: str, data: Mapping[str, Any]) -> list[Refusal]:
    """A refusal for a host's name, and for each of its SSH settings, that would say more to ssh than itself."""
    wrong = (
        [] if HOST.fullmatch(str(name)) else [("name", str(name), "a name or an address, or a connector of pyinfra")]
    )
    for key, (form, words) in LOGIN.items():
        text = str(data.get(key) or "")
        if text and not (form.fullmatch(text) and text.isprintable()):
            wrong.append((key, text, words))
    return [
        refuse(
            "unsafe-login",
            f"`{key}` of a host is no word for ssh",
            where=key,
            seen=shortened(text),
            wanted=words,
            attempt="write it anew; options for ssh belong into the file that ssh_config_file names",
        )
        for key, text, words in wrong
    ]


def one_machine_twice(places: Iterable[tuple[str, tuple[str, int, str]]]) -> list[Refusal]:
    """A refusal for each host that is reached at the place of a host before it: two plans would work on one machine."""
    first: dict[tuple[str, int, str], str] = {}
    twice = [(first.setdefault(place, name), name, place) for name, place in places]
    return [
        refuse(
            "one-machine-twice",
            f"{known} and {name} are one machine: both are reached at {address}, port {port}",
            where="ssh_hostname",
            seen=f"{address}, port {port}, under two names",
            wanted="one name for one machine",
            attempt=f"take {known} or {name} out, or correct its ssh_hostname or ssh_port",
        )
        for known, name, (address, port, _config) in twice
        if known != name
    ]
