"""A fault: something goes wrong on one machine at one moment of a deploy and can be repaired.

The operator reads these texts: they make the table of rehearsal/README.md, and the tests compare every run with `says`.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused

BEFORE = "before the deploy"
SERVING = "while it serves"


class Fault(ABC):
    """Base of all faults, each of which has a subclass."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """The fault, in one line."""
    happens: ClassVar[str]
    """A deploy's reaction to it."""
    says: ClassVar[str] = ""
    """Words of the run's output about the fault; empty if the output has none."""
    finds: ClassVar[tuple[str, ...]] = ()
    """Ids of the doctor's findings during or after the fault; `unasked` if the doctor gets no answer."""
    then: ClassVar[str] = "run again"
    """The operator's next step."""
    moment: ClassVar[str] = BEFORE
    """BEFORE, SERVING, or the beginning of the label of the operation at whose start the fault strikes."""
    kinds: ClassVar[tuple[str, ...]] = ("nspawn", "qemu")
    """Kinds of machines on which the fault can be shown."""

    @abstractmethod
    def apply(self, machine: Machine) -> None:
        """Breaks the machine, or starts to break it."""

    def undo(self, machine: Machine) -> None:  # noqa: B027
        """Repairs the fault like a person would; a single event needs no repair."""

    def strike(self, machine: Machine) -> None:
        """Applies the fault; refuses on a machine that cannot show it."""
        if machine.kind not in self.kinds:
            raise RehearsalRefused(
                f"{self.name} cannot be shown on {machine.name}, which is of kind {machine.kind}\n"
                f"  wanted  {' or '.join(self.kinds)}\n"
                f"  try     python -m rehearsal up v{machine.name[:8]} --kind {self.kinds[0]}"
            )
        self.apply(machine)

    @contextlib.contextmanager
    def on(self, machine: Machine) -> Iterator[None]:
        """Keeps the fault active inside the `with`, and repairs it afterwards."""
        try:
            self.strike(machine)
            yield
        finally:
            self.undo(machine)
