"""Fact: progress of the pull of an image."""

import shlex
from dataclasses import dataclass, field

from pyinfra.api import FactBase

from roles._shipping.units import UnitState, ask


@dataclass(frozen=True)
class PullState:
    """Docker's copy of the image, and the state of its unit. A host without Docker has no image."""

    has_image: bool = False
    """True if Docker has the image and no pull of the image is unfinished; an interrupted pull may leave no record."""
    has_blobs: bool = False
    """True if the host has the blobs in the registry's form, for itself and for others."""
    unit: UnitState = field(default_factory=UnitState)

    @property
    def is_going(self) -> bool:
        return self.unit.is_going


class Pull(FactBase[PullState]):
    """Asks Docker for the image under exactly the reference of its pull, and systemd for the unit."""

    def command(self, reference: str, unit: str, mark: str, blobs: str = "") -> str:
        kept = f"; test -s {shlex.quote(f'{blobs}/manifest.sha256')} && echo blobs=1; true" if blobs else ""
        image = f"docker image inspect -f 'image={{{{.Id}}}}' {shlex.quote(reference)} 2>/dev/null || true"
        cut = f"test -e {shlex.quote(mark)} && echo begun=1"
        return f"{image}; {cut}; {ask(unit)}{kept}"

    @staticmethod
    def default() -> PullState:
        return PullState()

    def process(self, output: list[str]) -> PullState:
        has_image = any(line.startswith("image=sha256:") for line in output) and "begun=1" not in output
        return PullState(has_image, "blobs=1" in output, UnitState.of(output))
