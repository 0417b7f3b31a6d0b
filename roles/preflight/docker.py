"""A Docker from another source, reported before the first change: the role's own packages would replace it. Pure.

Without this check it would be noticed only after the driver was installed and the host rebooted. A host with the wanted
package is not asked, because its Docker is not replaced.
"""

import re
from collections.abc import Iterator

from deploy.catalog import DOCKER_FLOOR, SYSTEMS
from deploy.catalog.versions import at_least
from deploy.refusals import PREFLIGHT, Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts, ask_packages, ask_value

DAEMON = "/etc/docker/daemon.json"
WANTED = {"docker": "docker-ce", "distribution": "docker.io"}
"""The package behind each `Docker(source=…)`."""

PACKAGES = ("docker-ce", "docker.io", "docker-engine", "moby-engine", "podman-docker")
TOGETHER = {"docker-ce": "docker-ce docker-ce-cli containerd.io", "moby-engine": "moby-engine moby-cli"}
"""Packages that have to be purged together, by the package that is found."""

_WORDS = (
    "w=$(systemctl show -P ExecStart docker.service | sed 's/.*argv\\[\\]=//; s/ ; .*//');"
    """ case $w in *DOCKER_OPTS*) w="$w $(sed -n 's/^DOCKER_OPTS=//p' /etc/default/docker | tr -d "\\"'")" ;; esac;"""
    ' echo "$w"'
)
_FILES = (
    "d=$(systemctl show -P DropInPaths docker.service); echo ${d:-$(systemctl show -P FragmentPath docker.service)}"
)


def fact_commands() -> list[str]:
    """Fact commands: packages, a snap, a dockerd that belongs to no package."""
    stray = 'd=$(command -v dockerd) && ! dpkg -S "$(readlink -f "$d")" >/dev/null && echo "$d"'
    return [
        ask_packages(*PACKAGES),
        ask_value("snap-docker", "[ -e /snap/docker/current ] && basename $(readlink /snap/docker/current)"),
        ask_value("stray-docker", stray),
        ask_value("dockerd-words", _WORDS),
        ask_value("dockerd-files", _FILES),
    ]


def foreign_docker(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """A finding for each Docker, or substitute for it, that the wanted package would replace or run beside."""
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


FLAGS = {
    "g": "data-root",
    "graph": "data-root",
    "log-opt": "log-opts",
    "feature": "features",
    "label": "labels",
    "insecure-registry": "insecure-registries",
    "registry-mirror": "registry-mirrors",
    "s": "storage-driver",
    "exec-opt": "exec-opts",
    "storage-opt": "storage-opts",
    "add-runtime": "runtimes",
    "D": "debug",
    "H": "hosts",
    "default-ulimit": "default-ulimits",
    "host": "hosts",
    "default-address-pool": "default-address-pools",
    "dns-opt": "dns-opts",
    "authorization-plugin": "authorization-plugins",
    "l": "log-level",
    "b": "bridge",
    "cdi-spec-dir": "cdi-spec-dirs",
    "default-network-opt": "default-network-opts",
    "G": "group",
    "p": "pidfile",
}
"""Flags of dockerd whose key in daemon.json has another name (moby's cmd/dockerd/config.go, 2026-11)."""
WORD = re.compile(r"--?([A-Za-z][A-Za-z0-9-]*)")


def keys_of(words: str) -> dict[str, str]:
    """Keys of daemon.json that the command line already sets: the flag, by its key."""
    flags = {match[0]: match[1] for word in words.split()[1:] if (match := WORD.match(word))}
    return {FLAGS.get(name, name): flag for flag, name in flags.items()}


def settings_file(words: str) -> str:
    """The settings file in dockerd's command line; empty if dockerd reads its own daemon.json."""
    match = re.search(r"\s--?config-file[=\s]+(\S+)", words)
    return match[1] if match and match[1] != DAEMON else ""


def other_file(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """A finding if dockerd reads another file: it would miss the settings that give containers their GPUs."""
    if path := settings_file(facts.value("dockerd-words")):
        yield Refusal(
            f"{mine.host}: dockerd reads its settings from {path}, and this project writes {DAEMON}",
            facts={
                "found": f"--config-file {path} in {facts.value('dockerd-files') or 'docker.service'}",
                "wanted": f"{DAEMON}, which dockerd reads unasked",
            },
            attempt=f"cp {path} {DAEMON} on the host, take --config-file out there, then systemctl daemon-reload and "
            "systemctl restart docker",
            state=PREFLIGHT,
            kind="dockerd-config-file",
        )


def flags_twice(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """A finding if a flag of dockerd's unit is a key that this project writes: dockerd does not start with both."""
    written = {"features", "log-driver", "log-opts", *mine.docker.daemon}
    written |= {"data-root"} if mine.docker.data_root or mine.data_disk() else set()
    twice = {key: flag for key, flag in keys_of(facts.value("dockerd-words")).items() if key in written}
    if not twice:
        return
    place = facts.value("dockerd-files") or "docker.service"
    own = [f'Docker(daemon={{"{key}": …}})' if key != "data-root" else 'Docker(data_root="…")' for key in sorted(twice)]
    yield Refusal(
        f"{mine.host}: dockerd would not start: its unit has flags whose keys daemon.json is to have",
        facts={
            "found": f"{', '.join(twice[key] for key in sorted(twice))} in {place}",
            "wanted": f"{', '.join(sorted(twice))} in daemon.json alone",
        },
        attempt="take the flags out there, then systemctl daemon-reload and systemctl restart docker; the inventory "
        f'says the same: "docker": {" and ".join(own)}',
        state=PREFLIGHT,
        kind="dockerd-flags",
    )


def _finding(mine: Slice, what: str, evidence: str, attempt: str) -> Refusal:
    stopped = "its containers would be stopped, and the new Docker would not find its images"
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
    """Commands that keep the existing Docker, if this project can use it, or remove it."""
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
