"""Moments at which the control process is killed: random ones of a full run, as an operation and seconds into it.

The moments are stratified: one in each fifteenth of the run, uniform inside it. A plain draw of fifteen moments would
leave a third of the run without any, also in every repetition, because the draw is seeded. A moment is translated into
the operation of an uninterrupted run at that time and the seconds since its start, so that a slower machine is
interrupted at the same place, which the test's name and message say.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field

from rehearsal.places import Places
from rehearsal.pyinfra_run import control_pid

OPERATION = "--> Starting operation: "
BEFORE, END = "before the first operation", "--> Results"


def drawn(seed: int, count: int) -> list[float]:
    """Returns fractions of a full run, one in each stratum, rounded so that a test's name contains them exactly."""
    draw = random.Random(seed)
    return [round((stratum + draw.random()) / count, 4) for stratum in range(count)]


@dataclass(frozen=True)
class Moment:
    """A moment: seconds into the operation with this number (0: before the first), or the beginning of the next
    operation."""

    number: int
    label: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s into operation {self.number}, {self.label}"


@dataclass
class Timeline:
    """The operations of a run, each with the seconds from the run's first output to its start."""

    began: list[tuple[str, float]] = field(default_factory=list)
    ended: float = 0.0
    _first: float = 0.0

    def heard(self, line: str) -> None:
        """Reads a line of the run's output."""
        now = time.monotonic()
        if not self.began:
            self._first = now
            self.began.append((BEFORE, 0.0))
        if line.startswith(OPERATION):
            self.began.append((line.removeprefix(OPERATION).strip(), now - self._first))
        if line.startswith(END):
            self.ended = now - self._first

    def moment(self, fraction: float) -> Moment:
        """Returns the step in progress after that fraction of the run, and its age."""
        after = fraction * self.ended
        number = max(index for index, (_, began) in enumerate(self.began) if began <= after)
        label, began = self.began[number]
        return Moment(number, label, round(after - began, 3))


@dataclass
class Killer:
    """Follows the output of a run, and kills only its control process at a chosen moment."""

    places: Places
    moment: Moment
    _timeline: Timeline = field(default_factory=Timeline)
    _timer: threading.Timer | None = None

    def heard(self, line: str) -> None:
        """Reads a line of the run's output."""
        self._timeline.heard(line)
        number = len(self._timeline.began) - 1
        if number > self.moment.number or self._timeline.ended:
            self.kill()
        elif number == self.moment.number and self._timer is None:
            self._timer = threading.Timer(self.moment.seconds, self.kill)
            self._timer.start()

    def kill(self) -> None:
        """Sends SIGKILL to the run's process only; its child processes continue."""
        if self._timer:
            self._timer.cancel()
        if pid := control_pid(self.places):
            os.kill(pid, signal.SIGKILL)
