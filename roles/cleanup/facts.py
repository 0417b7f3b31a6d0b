"""What of a host nothing will ask for any more."""

from __future__ import annotations

import shlex

from pyinfra.api import FactBase

from roles._shipping.places import PROGRAMS, command


class SpareFiles(FactBase[list[str]]):
    """One line per thing, as the host's own program tells it; a host without the program has nothing to spare."""

    default = list

    def command(self, kept: str) -> str:
        """`kept` is the program's JSON."""
        return f"test -e {PROGRAMS}/host && {command('clean-up')} list {shlex.quote(kept)}; true"

    def process(self, output: list[str]) -> list[str]:
        """The lines."""
        return [line for line in output if line.strip()]
