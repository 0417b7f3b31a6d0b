"""Facts of a host for the traffic role."""

from roles._pyinfra.facts import ask_units, ask_value, script
from roles._pyinfra.role_facts import LeftFact, RoleFact
from roles._shipping.places import UNITS
from roles.traffic.defaults import NOTICES_UNIT, UNIT, USER


class Service(RoleFact):
    """State of the service: its user, True if it runs, and True if it starts at boot."""

    def command(self) -> str:
        return script(ask_units(UNIT, NOTICES_UNIT), ask_value("user", f"id -u {USER}"))


class NoticesLeft(LeftFact):
    """True if the host listens for notices although the inventory names no cloud for it."""

    path = f"{UNITS}/{NOTICES_UNIT}"
