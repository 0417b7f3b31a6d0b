"""Facts: our files on a host, and whether the state before the first deploy was recorded."""

from pyinfra.api import FactBase

from roles._shipping.places import SETTINGS
from roles.removal.sent import program


class Remembered(FactBase[bool]):
    """Fact: true if the host has the record of packages before the first deploy."""

    default = bool

    def command(self) -> str:
        return f"test -f {SETTINGS}/before/packages && echo yes; true"

    def process(self, output: list[str]) -> bool:
        return "yes" in output


class OnHost(FactBase[list[str]]):
    """Lines for files, units and packages that would be removed.

    The program is sent with the command, not installed: after an interrupted removal a host has no programs of ours.
    """

    default = list

    def command(self) -> str:
        """The command. A host without Python has no files of ours: we install Python first and remove it last."""
        text = program()
        assert "\nEND_OF_PROGRAM\n" not in text
        return f"command -v python3 >/dev/null || exit 0; python3 -B - list <<'END_OF_PROGRAM'\n{text}END_OF_PROGRAM\n"

    def process(self, output: list[str]) -> list[str]:
        """The lines of the output, except lines about kept files."""
        lines = [line for line in output if line.strip()]
        return lines if any(not line.startswith("stays: ") for line in lines) else []
