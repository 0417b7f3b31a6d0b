"""What the traffic role asks a host."""

from __future__ import annotations

from pyinfra.api import FactBase

from roles._pyinfra.facts import Seen, ask_units, ask_value, script
from roles.traffic.defaults import UNIT, USER


class Service(FactBase[Seen]):
    """Whether the service has its user, runs, and starts at boot."""

    default = Seen

    def command(self) -> str:
        return script(ask_units(UNIT), ask_value("user", f"id -u {USER}"))

    def process(self, output: list[str]) -> Seen:
        """Parsed, not judged."""
        return Seen.parse(output)
