"""The driver's three versions, and the actions that make them equal. Pure.

    on disk      the module the running kernel would load     (modinfo)
    loaded       the module it has loaded                     (/sys/module/nvidia/version)
    user space   the libraries containers are given           (libcuda.so.1)

Different versions are the "Driver/library version mismatch" of NVML, and every GPU container fails at its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from deploy.catalog.versions import at_least
from roles._pyinfra.facts import HostFacts


class State(Enum):
    """State of the driver, with its description as the value."""

    HEALTHY = "healthy"
    ABSENT = "no driver is installed"
    NOT_BUILT = "there is no module for the running kernel"
    NEEDS_LOAD = "the module is on disk, but not loaded"
    NEEDS_RELOAD = "the loaded version differs from the version on disk"
    NEEDS_REBOOT = "only a reboot can put the module in place"
    SPLIT = "module and libraries have different versions"


@dataclass(frozen=True)
class HostDriver:
    """A host's driver; versions in NVIDIA's form (580.178.04), empty without a driver."""

    on_disk: str = ""
    loaded: str = ""
    user_space: str = ""
    nouveau: bool = False
    """True if nouveau drives the GPU."""
    other_kernel: bool = False
    """True if a module is installed for another kernel than the running one."""

    @classmethod
    def of(cls, facts: HostFacts) -> HostDriver:
        return cls(
            on_disk=facts.value("on-disk").split("\n")[0].strip(),
            loaded=facts.value("loaded").strip(),
            user_space=facts.value("user-space").strip(),
            nouveau=bool(facts.value("nouveau")),
            other_kernel=bool(facts.value("other-kernels")),
        )

    @property
    def state(self) -> State:
        """The next action."""
        if not (self.on_disk or self.loaded or self.user_space or self.other_kernel):
            return State.ABSENT
        if not self.on_disk:
            return State.NEEDS_REBOOT if self.other_kernel else State.NOT_BUILT
        if self.user_space and self.user_space != self.on_disk:
            return State.SPLIT
        if self.loaded == self.on_disk:
            return State.HEALTHY
        if self.nouveau:
            return State.NEEDS_REBOOT
        return State.NEEDS_RELOAD if self.loaded else State.NEEDS_LOAD

    def reaches(self, floor: str) -> bool:
        return at_least(self.loaded or self.on_disk, floor)

    def to_rows(self) -> dict[str, str]:
        return {
            "on disk": self.on_disk or "none",
            "loaded": self.loaded or ("nouveau" if self.nouveau else "none"),
            "user space": self.user_space or "none",
        }
