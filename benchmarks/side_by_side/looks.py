"""Facts that the steps of `ours.py` ask of a host."""

from __future__ import annotations

from pyinfra.api import FactBase


class Looked(FactBase[str]):
    """Output of a piece of shell, without the last line end; a shell that ends badly has printed all it knows."""

    default = str

    def command(self, shell: str) -> str:
        """The shell, ending well."""
        return f"{{ {shell}; }} 2>/dev/null; true"

    def process(self, output: list[str]) -> str:
        """The lines."""
        return "\n".join(output)
