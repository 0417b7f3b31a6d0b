"""Facts of a host for the traffic role."""

from __future__ import annotations

from pyinfra.api import FactBase

from roles._pyinfra.facts import HostFacts, ask_units, ask_value, script
from roles.traffic.defaults import UNIT, USER


class Service(FactBase[HostFacts]):
    """State of the service: its user, if it runs, and if it starts at boot."""

    default = HostFacts

    def command(self) -> str:
        return script(ask_units(UNIT), ask_value("user", f"id -u {USER}"))

    def process(self, output: list[str]) -> HostFacts:
        return HostFacts.parse(output)
