"""Whether the docker role did its job, judged from the facts it has read anyway."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deploy.errors import Refusal
from deploy.versions import at_least
from roles.docker.defaults import Defaults
from roles.seen import Seen
from roles.steps import Command, Refuse


def engine_version(seen: Seen) -> str:
    """26.1.5 of `Docker version 26.1.5, build …`; empty when there is no engine."""
    found = re.search(r"version (\d+(?:\.\d+)*)", seen.value("engine"))
    return found.group(1) if found else ""


def judge(seen: Seen, chosen: Defaults) -> Iterator[Command]:
    """Nothing when the engine runs and reads the toolkit's CDI schema; otherwise a refusal."""
    found = engine_version(seen)
    if not at_least(found, chosen.engine_floor):
        yield Refuse(_too_old(found or "no engine", chosen))
    elif not seen.unit("docker.service").runs:
        yield Refuse(_down(seen))


def _too_old(found: str, chosen: Defaults) -> Refusal:
    return Refusal(
        f"the Docker engine cannot read CDI specifications of schema 0.7.0: {found}",
        facts={"found": found, "wanted": f"{chosen.engine_floor} or newer"},
        attempt='docker = Docker(source="docker"), or release the hold and upgrade: apt-mark unhold docker-ce',
        state="the engine was left as it is",
        kind="docker-floor",
    )


def _down(seen: Seen) -> Refusal:
    return Refusal(
        "the Docker engine does not run",
        facts={"found": f"docker.service is {seen.unit('docker.service').active}", "wanted": "active"},
        attempt="journalctl -u docker.service -n 50 on the host says why",
        state="packages and settings of the docker role are in place",
        kind="docker-down",
    )
