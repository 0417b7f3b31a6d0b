"""Facts of a host for the traffic role."""

from __future__ import annotations

from pyinfra.api import FactBase

from roles._pyinfra import together
from roles._pyinfra.facts import HostFacts, ask_units, ask_value, script
from roles._shipping.places import UNITS
from roles.traffic.defaults import NOTICES_UNIT, UNIT, USER


class Service(FactBase[HostFacts]):
    """State of the service: its user, True if it runs, and True if it starts at boot."""

    default = HostFacts

    def command(self) -> str:
        return script(ask_units(UNIT, NOTICES_UNIT), ask_value("user", f"id -u {USER}"))

    def process(self, output: list[str]) -> HostFacts:
        return HostFacts.parse(output)


class NoticesLeft(FactBase[bool]):
    """True if the host listens for notices although the inventory names no cloud for it."""

    default = bool

    def command(self) -> str:
        return f"[ ! -e {UNITS}/{NOTICES_UNIT} ] || echo there"

    def process(self, output: list[str]) -> bool:
        return "there" in output


together.early(NoticesLeft)
