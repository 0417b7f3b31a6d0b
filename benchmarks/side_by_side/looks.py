"""Facts that the steps of `as_role.py` ask of a host."""

from __future__ import annotations

from pyinfra.api import FactBase


class Looked(FactBase[str]):
    """The output of a shell command, without the last line end; a failed shell's output counts too."""

    default = str

    def command(self, shell: str) -> str:
        """Returns the shell with exit code 0."""
        return f"{{ {shell}; }} 2>/dev/null; true"

    def process(self, output: list[str]) -> str:
        """Returns the lines."""
        return "\n".join(output)
