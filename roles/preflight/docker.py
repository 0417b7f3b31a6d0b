"""A Docker that others installed, found before the first change: the role's own packages would replace it. Pure.

Found later, it would be found after the driver was installed and the host rebooted. A host that has the wanted package
already is not asked: nothing is replaced there.
"""

from __future__ import annotations

from collections.abc import Iterator

from deploy.catalog import DOCKER_FLOOR, SYSTEMS
from deploy.catalog.versions import at_least
from deploy.refusals.errors import PREFLIGHT, Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts, ask_packages, ask_value

WANTED = {"docker": "docker-ce", "distribution": "docker.io"}
"""The package behind each `Docker(source=…)`."""

PACKAGES = ("docker-ce", "docker.io", "docker-engine", "moby-engine", "podman-docker")
TOGETHER = {"docker-ce": "docker-ce docker-ce-cli containerd.io", "moby-engine": "moby-engine moby-cli"}
"""Packages that have to be purged together, by the package that is found."""


def fact_commands() -> list[str]:
    """Fact commands: packages, a snap, a dockerd that belongs to no package."""
    stray = 'd=$(command -v dockerd) && ! dpkg -S "$(readlink -f "$d")" >/dev/null && echo "$d"'
    return [
        ask_packages(*PACKAGES),
        ask_value("snap-docker", "[ -e /snap/docker/current ] && basename $(readlink /snap/docker/current)"),
        ask_value("stray-docker", stray),
    ]


def foreign_docker(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """A finding for each Docker, or what calls itself one, that the wanted package would replace or run beside."""
    wanted = WANTED[mine.docker.source]
    if wanted in facts.packages:
        return
    for package in PACKAGES:
        if package in facts.packages:
            yield _finding(
                mine, package, f"{package} {facts.packages[package].version}", _instead(package, facts, mine)
            )
    if revision := facts.value("snap-docker"):
        yield _finding(mine, "the snap docker", f"revision {revision}", _remove("snap remove docker"))
    elif path := facts.value("stray-docker"):
        attempt = _remove(f"systemctl disable --now docker.service docker.socket; rm {path}")
        yield _finding(mine, path, f"{path}, which no package installed", attempt)


def _finding(mine: Slice, what: str, evidence: str, attempt: str) -> Refusal:
    stopped = "its containers would be stopped, and its images lie where the new Docker does not look"
    replaced = "Docker's packages would take the docker command away from Podman"
    return Refusal(
        f"{mine.host}: another Docker is installed: {what}",
        facts={
            "found": evidence,
            "wanted": f"{WANTED[mine.docker.source]}, or no Docker yet",
            "means": replaced if what == "podman-docker" else stopped,
        },
        attempt=attempt,
        state=PREFLIGHT,
        kind="foreign-docker",
    )


def _instead(package: str, facts: HostFacts, mine: Slice) -> str:
    """Words to type: to keep that Docker, where this project could run with it; to remove it."""
    removal = _remove(f"apt-get purge {TOGETHER.get(package, package)}")
    if package == "docker-ce":
        return f'docker = Docker(source="docker") keeps it; or {removal}'
    if package != "docker.io":
        return removal
    system, version = SYSTEMS[mine.machine.os], facts.packages[package].version.partition("~")[0].partition("+")[0]
    if not system.has_cdi:
        return (
            f"{removal}; docker.io {system.distribution_docker} of {system.name} cannot attach a GPU, so it cannot stay"
        )
    if at_least(version, DOCKER_FLOOR):
        return f'docker = Docker(source="distribution") keeps it; or {removal}'
    newer = f"apt-get install docker.io on the host brings {system.distribution_docker}, which"
    return f'{newer} docker = Docker(source="distribution") keeps; or {removal}'


def _remove(command: str) -> str:
    return f"{command} on the host, and run again"
