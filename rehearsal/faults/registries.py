"""Faults of a registry: away, slow, rejecting, or cut short by a proxy in between."""

from __future__ import annotations

from pathlib import Path

from rehearsal import services
from rehearsal.faults.fault import Fault
from rehearsal.machine import Machine
from rehearsal.processes import Process

OFTEN = 1_000_000


class _Switched(Fault):
    """A switch of the registry's front: a file that the front reads at each request. `makes` is its content."""

    switch = ""
    makes = ""

    def apply(self, machine: Machine) -> None:
        (folder(machine) / self.switch).write_text(self.makes)

    def undo(self, machine: Machine) -> None:
        (folder(machine) / self.switch).unlink(missing_ok=True)


class RegistryDown(Fault):
    """Closes the registry's port."""

    name = "registry-down"
    summary = "the registry does not answer"
    finds = ("deploy-refused",)
    happens = "if the image is not yet on the host, refused before the first change; the service continues"
    says = "cannot be reached, and image would come from there"

    def apply(self, machine: Machine) -> None:
        Process("registry", folder(machine), [], None).stop()

    def undo(self, machine: Machine) -> None:
        services.services_up()


class RegistrySlow(_Switched):
    """Limits the speed at which layers arrive, in bytes a second."""

    name = "registry-slow"
    summary = "the registry sends slowly"
    finds = ("run-at-work",)
    happens = "the pull is a unit of the host: the run shows its progress, and waits"
    then = "nothing to do; after an interruption, the next run attaches to the pull"
    switch = "fault-slow"

    def __init__(self, bytes_per_second: int = 4_000_000) -> None:
        self.makes = str(bytes_per_second)


class Registry401(_Switched):
    """Rejects a good key repeatedly. NGC is known to reject a good key once, after which deploys try again."""

    name = "registry-401"
    summary = "the registry rejects the key (401)"
    finds = ("job-failed",)
    happens = "the pull fails after three retries; the service stays untouched"
    says = "rejected the key (401, unauthorized)"
    then = "make a new key, run again"
    switch = "fault-sporadic-401"
    makes = str(OFTEN)


class RegistryTruncated(_Switched):
    """Ends the connection within a layer, at every request."""

    name = "registry-truncated"
    summary = "a proxy truncates every large layer"
    finds = ("job-failed",)
    happens = "Docker retries, then the pull fails; no partial image is used"
    says = "did not deliver the image"
    then = "configure the proxy to pass large responses, run again"
    switch = "fault-cut-blobs"

    def __init__(self, after_bytes: int = 1_000_000) -> None:
        self.makes = str(after_bytes)


def folder(machine: Machine) -> Path:
    """Returns the state directory of the services of the machine's rehearsal."""
    return machine.places.root / "services"
