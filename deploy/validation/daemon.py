"""The extra keys of Docker's daemon.json: names and types that the daemon reads, and no API over the network."""

import re
from collections.abc import Iterator
from typing import Any

from deploy.catalog.daemon_keys import DAEMON_KEYS
from deploy.catalog.names import slip_of
from deploy.inventory.slips import SWITCHES
from deploy.refusals import Refusal, described, refuse, secret_in, shortened
from deploy.spec import Host

RUNTIMES = ("runc", "io.containerd.runc.v2")
"""Runtimes that dockerd knows without configuration."""
MIRROR = re.compile(r"https?://[^/?#@\s]+/?")
NETWORK = re.compile(r"[0-9.]+/[0-9]{1,2}")
LEVEL = re.compile(r"trace|debug|info|warn|warning|error|fatal|panic")
STORE = re.compile(r"(?!(?:aufs|devicemapper|overlay)$).+")
VALUES: dict[str, tuple[re.Pattern[str], str, str]] = {
    "registry-mirrors": (MIRROR, "https:// and a host, without a path", '["https://{text}"]'),
    "bip": (NETWORK, "an address and the length of its network", '"{text}/24"'),
    "fixed-cidr": (NETWORK, "a network", '"{text}/24"'),
    "log-level": (LEVEL, "debug, info, warn, error or fatal", '"info"'),
    "storage-driver": (
        STORE,
        "a storage driver that Docker still has: aufs, devicemapper and overlay were removed",
        '"overlay2"',
    ),
}
"""Forms of texts, read in moby's daemon/config and registry on 2026-11-27; with another the daemon does not start."""
WORDS = {list: "a list", dict: "a dictionary", bool: "True or False", int: "a whole number", str: "a text"}


def daemon_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each key that would stop the daemon from starting, or open its API to the network."""
    for key, value in host.docker.daemon.items():
        where = f'docker.daemon["{key}"]'
        wanted = DAEMON_KEYS.get(key)
        if wanted is None and (meant := slip_of(key, DAEMON_KEYS)):
            yield refuse(
                "daemon-key",
                f"dockerd does not know the key {key}, and would not start with it",
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
        elif key == "log-opts":
            yield from _log_options(value, where)
        elif key in VALUES:
            yield from _values(key, value, where)
    yield from _contradictions(host)


def _values(key: str, value: Any, where: str) -> Iterator[Refusal]:
    """A refusal for each text or listed text that the daemon does not accept for this key."""
    form, wanted, typed = VALUES[key]
    for text in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(text, str) and not secret_in(text) and not form.fullmatch(text):
            shown = typed.format(text=text.partition("/")[0]) if form is not MIRROR else typed.format(text=text)
            yield refuse(
                "daemon-key",
                f"dockerd would not start with {key} {shortened(text)}",
                where=where,
                seen=shortened(text),
                wanted=wanted,
                attempt=f'daemon={{"{key}": {shown}}}',
            )


def _log_options(options: dict[str, Any], where: str) -> Iterator[Refusal]:
    """A refusal for each option of a log driver that is not a text: dockerd takes even numbers as texts."""
    for key, value in options.items():
        if not isinstance(value, str):
            written = "true" if value is True else "false" if value is False else value
            yield refuse(
                "daemon-key",
                f"dockerd reads log-opts as texts, and would not start with {key} as another type",
                where=f'{where}["{key}"]',
                seen=described(value),
                wanted="a text, of a number too",
                attempt=f'"{written}"' if isinstance(value, (bool, int, float)) else '"A TEXT"',
            )


def _contradictions(host: Host) -> Iterator[Refusal]:
    """A refusal for each key of the daemon that this project sets otherwise, or that names a missing object."""
    daemon, data_root = host.docker.daemon, host.docker.data_root
    root, runtime, features = daemon.get("data-root"), daemon.get("default-runtime"), daemon.get("features")
    if isinstance(root, str) and data_root and root.rstrip("/") != data_root.rstrip("/"):
        yield refuse(
            "two-data-roots",
            "Docker has one data directory, and the inventory declares two",
            where='docker.daemon["data-root"]',
            seen=f"data_root={data_root!r}, and {root!r} in daemon",
            wanted="Docker(data_root=…) alone: preflight asks for its room",
            attempt="leave data-root out",
        )
    runtimes = daemon.get("runtimes")
    known = (*RUNTIMES, *(runtimes if isinstance(runtimes, dict) else ()))
    if isinstance(runtime, str) and runtime not in known:
        yield refuse(
            "daemon-key",
            f"dockerd would not start: the inventory does not declare its default runtime {runtime}",
            where='docker.daemon["default-runtime"]',
            seen=repr(runtime),
            wanted="no default runtime: containers here get their GPUs by CDI",
            attempt="leave default-runtime out",
        )
    if isinstance(features, dict) and features.get("cdi") is False:
        yield refuse(
            "daemon-key",
            "containers here get their GPUs by CDI, and this setting switches CDI off",
            where='docker.daemon["features"]["cdi"]',
            seen="False",
            wanted="True, or nothing",
            attempt="leave cdi out",
        )


def _is_of(value: Any, wanted: type) -> bool:
    if wanted is list:
        return isinstance(value, (list, tuple))
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def _typed(key: str, value: Any, wanted: type) -> str:
    if wanted is list and isinstance(value, str):
        return f'daemon={{"{key}": ["{value}"]}}'
    if wanted is bool and str(value).lower() in SWITCHES:
        return f'daemon={{"{key}": {SWITCHES[str(value).lower()]}}}'
    if wanted is int and isinstance(value, str) and value.isdecimal() and len(value) < 12:
        return f'daemon={{"{key}": {value}}}'
    return f'daemon={{"{key}": {WORDS[wanted]}}}, or leave {key} out'


def _api(hosts: Any, where: str) -> Iterator[Refusal]:
    """A refusal for an address on the network: anyone who reaches Docker's API is root on the host."""
    if exposed := [host for host in hosts if not (isinstance(host, str) and host.startswith(("unix://", "fd://")))]:
        yield refuse(
            "docker-over-network",
            "Docker's API would be open to the network: whoever reaches it is root on this host",
            where=where,
            seen=", ".join(map(str, exposed))[:200],
            wanted="only the host's socket, through which this project uses Docker",
            attempt="leave hosts out; from elsewhere: docker --host ssh://USER@HOST",
        )
