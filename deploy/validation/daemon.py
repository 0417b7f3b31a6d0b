"""The further keys of Docker's daemon.json: names and types the daemon reads, and no API over the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.catalog.daemon_keys import DAEMON_KEYS
from deploy.catalog.names import slip_of
from deploy.refusals.errors import Refusal
from deploy.refusals.quoting import described
from deploy.refusals.refuse import refuse
from deploy.spec import Host

WORDS = {list: "a list", dict: "a dictionary", bool: "True or False", int: "a whole number", str: "a text"}


def daemon_problems(host: Host) -> Iterator[Refusal]:
    for key, value in host.docker.daemon.items():
        where = f'docker.daemon["{key}"]'
        wanted = DAEMON_KEYS.get(key)
        if wanted is None and (meant := slip_of(key, DAEMON_KEYS)):
            yield refuse(
                "daemon-key",
                f"dockerd knows no key {key}, and would not start with it",
                where=where,
                seen=repr(key),
                wanted="a key of daemon.json",
                attempt=f'daemon={{"{meant}": …}}',
            )
        elif wanted is not None and not _is_of(value, wanted):
            yield refuse(
                "daemon-key",
                f"dockerd reads {key} as {WORDS[wanted]}, and would not start with another type",
                where=where,
                seen=described(value),
                wanted=WORDS[wanted],
                attempt=_typed(key, value, wanted),
            )
        elif key == "hosts":
            yield from _api(value, where)


def _is_of(value: Any, wanted: type) -> bool:
    if wanted is list:
        return isinstance(value, (list, tuple))
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def _typed(key: str, value: Any, wanted: type) -> str:
    if wanted is list and isinstance(value, str):
        return f'daemon={{"{key}": ["{value}"]}}'
    if wanted is int and isinstance(value, str) and value.isdecimal() and len(value) < 12:
        return f'daemon={{"{key}": {value}}}'
    return f'daemon={{"{key}": {WORDS[wanted]}}}, or leave {key} out'


def _api(hosts: Any, where: str) -> Iterator[Refusal]:
    """A refusal for an address on the network: anyone who reaches Docker's API is root on the host."""
    if exposed := [host for host in hosts if not (isinstance(host, str) and host.startswith(("unix://", "fd://")))]:
        yield refuse(
            "docker-over-network",
            "Docker's API would answer over the network: whoever reaches it is root on this host",
            where=where,
            seen=", ".join(map(str, exposed))[:200],
            wanted="the socket of the host alone, which is where this project speaks to Docker",
            attempt="leave hosts out; from elsewhere: docker --host ssh://USER@HOST",
        )
