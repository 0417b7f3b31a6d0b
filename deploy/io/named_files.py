"""The files of the control machine that an inventory names, and the missing ones among them.

A plan can be made without them, so each missing one is a note of the plan. A deploy refuses if a file of a build is
missing (`engine_inputs`); any other missing file would fail in the middle of a run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.inventory.fleet import Fleet
from deploy.io.local_paths import is_directory, is_file, local_path, sibling
from deploy.refusals import model_at
from deploy.spec import LLM, BalancerHost, Host, Https, MonitorHost, Secret, Server


@dataclass(frozen=True)
class NamedFile:
    """A path from the inventory. `use` is its purpose, `place` its position in the inventory."""

    use: str
    path: str
    place: str
    is_directory: bool = False

    def is_missing(self, root: Path) -> bool:
        """True if this machine has no such file or directory."""
        path = local_path(self.path, root)
        return not (is_directory(path) if self.is_directory else is_file(path))

    def note(self, hosts: list[str]) -> str:
        """A sentence for the plan: the missing file, and the hosts that name it."""
        whose = hosts[0] if len(hosts) == 1 else f"{hosts[0]} and {len(hosts) - 1} more"
        kind = "directory" if self.is_directory else "file"
        return f"no {kind} {self.path} here: {self.use} ({whose}: {self.place}); a deploy needs it, this plan does not"


def missing_files(inventory: Iterable[Any], fleet: Fleet, root: Path) -> tuple[str, ...]:
    """A sentence for each file or directory of the inventory that is missing on this machine, with its hosts."""
    sources = {str(host.name): host for host in inventory}
    hosts: dict[NamedFile, list[str]] = {}
    declared = [(host.name, files_of(host, root)) for host in fleet.hosts]
    declared += [(balancer.name, files_of_balancer(balancer)) for balancer in fleet.balancers]
    declared += [(monitor.name, files_of_monitor(monitor)) for monitor in fleet.monitors]
    for name, files in declared:
        for file in [*files, *files_of_connection(sources.get(name))]:
            if file.is_missing(root):
                hosts.setdefault(file, []).append(name)
    return tuple(file.note(names) for file, names in hosts.items())


def files_of(host: Host, root: Path) -> Iterator[NamedFile]:
    """The files that the typed part of a host's data names."""
    if host.engine_trust and not _has_public_half(host.engine_trust.key, root):
        yield NamedFile("the key that signs engines", host.engine_trust.key, "engine_trust.key")
    if host.engine_store and host.engine_store.kind == "directory":
        yield NamedFile("the engine store", host.engine_store.place, "engine_store", is_directory=True)
    for place, ca_file in (("registry", host.registry.ca_file), ("hub", host.hub.ca_file)):
        if ca_file:
            yield NamedFile(f"the CA of the {place}", ca_file, f"{place}.ca_file")
    for name in ("system", "nvidia", "docker", "toolkit"):
        if mirror := getattr(host.mirrors, name):
            yield NamedFile(f"the signing key of the {name} mirror", mirror.key_file, f"mirrors.{name}.key_file")
    for place, secret in (("registry.key", host.registry.key), ("hub.token", host.hub.token)):
        if isinstance(secret, Secret) and secret.kind == "vault":
            yield NamedFile("the vault of a secret", secret.source[0], place)
    for server in host.servers:
        yield from _files_of_server(server)
    if host.gateway and host.gateway.https:
        yield from _files_of_https(host.gateway.https)


def _files_of_https(https: Https) -> Iterator[NamedFile]:
    if https.certificate:
        yield NamedFile("the certificate of the host", https.certificate, "gateway.https.certificate")
    if https.acme and https.acme.authority:
        yield NamedFile("the issuer of the ACME directory", https.acme.authority, "gateway.https.acme.authority")
    if https.certificate_key and https.certificate_key.kind == "vault":
        yield NamedFile("the vault of a secret", https.certificate_key.source[0], "gateway.https.certificate_key")


def files_of_balancer(balancer: BalancerHost) -> Iterator[NamedFile]:
    """The files that a balancer's data names."""
    declared = balancer.balancer
    if declared.certificate:
        yield NamedFile("the certificate of a balancer", declared.certificate, "balancer.certificate")
    if declared.clients:
        yield NamedFile("the authorities of clients", declared.clients, "balancer.clients")
    if declared.certificate_key and declared.certificate_key.kind == "vault":
        yield NamedFile("the vault of a secret", declared.certificate_key.source[0], "balancer.certificate_key")


def files_of_monitor(monitor: MonitorHost) -> Iterator[NamedFile]:
    """The files that a monitor's data names."""
    receivers = monitor.monitor.receivers
    if receivers and receivers.kind == "vault":
        yield NamedFile("the vault of a secret", receivers.source[0], "monitor.receivers")


def _has_public_half(key: str, root: Path) -> bool:
    """True if the .pub file of a key exists: the private half may be in an agent."""
    path = local_path(key, root)
    return is_file(sibling(path, ".pub"))


def _files_of_server(server: Server) -> Iterator[NamedFile]:
    for model in server.models:
        if not isinstance(model, LLM):
            continue
        if model.calibration:
            place = model_at(server.name, model.name, "calibration", "directory")
            yield NamedFile("the texts to calibrate with", model.calibration.directory, place, is_directory=True)
        for name in ("prompts", "answers", "tasks"):
            if model.replay and (path := getattr(model.replay, name, "")):
                place = model_at(server.name, model.name, "replay", name)
                yield NamedFile(f"the {name} of the replay", path, place)


def files_of_connection(source: Any) -> Iterator[NamedFile]:
    """The files that pyinfra's connection settings of a host name."""
    data = source.data.dict() if hasattr(source, "data") and hasattr(source.data, "dict") else {}
    for key, use in (("ssh_key", "the key that logs in"), ("ssh_config_file", "the configuration of ssh")):
        if isinstance(data.get(key), str) and data[key]:
            yield NamedFile(use, data[key], key)
