"""Paths on a host that roles, host programs, units and smoke tests share."""

from deploy.models.files import ROOT

PROGRAMS = "/usr/local/lib/enginehouse"
SETTINGS = "/etc/enginehouse"
RUNTIME = "/run/enginehouse"
UNITS = "/etc/systemd/system"

FETCH_USER, SHARE_USER = "enginehouse-fetch", "enginehouse-share"
"""The users that receive files from a hub, and from other hosts; each can write only into its staging directory."""

RELEASES = f"{ROOT}/releases"
SERVERS = f"{ROOT}/servers"
PROBES = f"{ROOT}/probes"


def program(name: str) -> str:
    return f"{PROGRAMS}/{name}"


def command(name: str) -> str:
    """The words that start a Python program of the host: `swap`, `undo`, … of files/host."""
    return f"/usr/bin/python3 -B {PROGRAMS}/host {name}"


def unit(name: str) -> str:
    return f"{UNITS}/{name}"


def release(release_id: str) -> str:
    return f"{RELEASES}/{release_id}"


def server(name: str) -> str:
    return f"{SERVERS}/{name}"
