"""Fact: files of a host that no release needs."""

import shlex

from pyinfra.api import FactBase

from roles._shipping.places import PROGRAMS, command


class SpareFiles(FactBase[list[str]]):
    """Lines of the host's own program, one per file; empty on a host without the program."""

    default = list

    def command(self, kept: str) -> str:
        return f"test -e {PROGRAMS}/host && {command('clean-up')} list {shlex.quote(kept)}; true"

    def process(self, output: list[str]) -> list[str]:
        return [line for line in output if line.strip()]
