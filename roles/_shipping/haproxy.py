"""The distribution's HAProxy, as roles install and configure it; its own service stays off."""

from __future__ import annotations

from collections.abc import Iterator

from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, write
from roles._shipping import apt

DISTRIBUTION = "haproxy.service"
STREAMS = {
    "2.6": "tune.h2.max-concurrent-streams",
    "2.8": "tune.h2.fe.max-concurrent-streams",
    "3.0": "tune.h2.fe.max-concurrent-streams",
}
"""Requests that one gRPC connection of a client may have in flight; from 2.8 on apart from those to Triton."""


def package(facts: HostFacts) -> Iterator[Command]:
    """Commands that install the distribution's HAProxy; its own service stays off, ours have units of their own."""
    yield from apt.install({"haproxy": ""}, facts.packages)
    unit = facts.unit(DISTRIBUTION)
    if "haproxy" not in facts.packages or unit.runs or unit.starts_at_boot:
        yield f"systemctl disable --now {DISTRIBUTION}"


def written(facts: HostFacts, path: str, wanted: str) -> Iterator[Command]:
    """Commands after which the file is as wanted. HAProxy reads it first: one that it refuses replaces nothing."""
    if not facts.holds(path, wanted):
        new, folder = f"{path}.checked", path.rsplit("/", 1)[0]
        yield write(new, wanted, then=f"haproxy -c -q -f {new} && mv -T {new} {path} && sync {folder}")
