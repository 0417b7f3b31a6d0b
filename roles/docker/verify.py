"""Judges the result of the docker role by facts that are read anyway."""

import re
from collections.abc import Iterator

from deploy.catalog.versions import at_least
from deploy.refusals import Refusal
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse
from roles.docker.defaults import Defaults
from roles.docker.facts import ENGINES


def docker_version(facts: HostFacts) -> str:
    """26.1.5 from `5:26.1.5-1~debian.12` or `Docker version 26.1.5, build …`; empty without Docker."""
    packaged = next((facts.packages[name].version for name in ENGINES if name in facts.packages), "")
    match = re.search(r"(?:^|:|version )(\d+(?:\.\d+)+)", packaged or facts.value("docker"))
    return match[1] if match else ""


def judge(facts: HostFacts, chosen: Defaults) -> Iterator[Command]:
    """A refusal unless the daemon runs and reads the toolkit's CDI schema."""
    version = docker_version(facts)
    if not at_least(version, chosen.engine_floor):
        yield Refuse(_too_old(version or "no Docker", chosen))
    elif not facts.unit("docker.service").runs:
        yield Refuse(_down(facts))


def _too_old(version: str, chosen: Defaults) -> Refusal:
    return Refusal(
        f"this Docker cannot read CDI specifications of schema 0.7.0: {version}",
        facts={"found": version, "wanted": f"{chosen.engine_floor} or newer"},
        attempt='docker = Docker(source="docker"), or release the hold and upgrade: apt-mark unhold docker-ce',
        state="Docker was left as it is",
        kind="docker-floor",
    )


def _down(facts: HostFacts) -> Refusal:
    return Refusal(
        "the Docker daemon does not run",
        facts={"found": f"docker.service is {facts.unit('docker.service').active}", "wanted": "active"},
        attempt="journalctl -u docker.service -n 50 on the host says why",
        state="packages and settings of the docker role are in place",
        kind="docker-down",
    )
