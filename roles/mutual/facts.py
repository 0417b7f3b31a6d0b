"""Facts of a host for the role, asked in one command."""

from __future__ import annotations

from pyinfra.api import FactBase

from roles._pyinfra import together
from roles._pyinfra.facts import HostFacts, ask_files, ask_packages, ask_units, ask_value, script
from roles._shipping.certificates import ask_certificate
from roles._shipping.haproxy import DISTRIBUTION
from roles.mutual.defaults import AUTHORITY, CERTIFICATE, CONFIG, STARTED, UNIT, UNIT_NAME


class MutualHost(FactBase[HostFacts]):
    """HAProxy's package and units, our configuration and certificate, and if HAProxy has read the current files."""

    default = HostFacts

    def command(self) -> str:
        return script(
            ask_packages("haproxy"),
            ask_files(CONFIG),
            ask_certificate(CERTIFICATE, AUTHORITY),
            ask_units(UNIT_NAME, DISTRIBUTION),
            ask_value("stale", f"sha256sum --status -c {STARTED} || echo stale"),
        )

    def process(self, output: list[str]) -> HostFacts:
        return HostFacts.parse(output)


class MutualLeft(FactBase[bool]):
    """True if the host has the role's unit although no gateway of another host uses it."""

    default = bool

    def command(self) -> str:
        return f"[ ! -e {UNIT} ] || echo there"

    def process(self, output: list[str]) -> bool:
        return "there" in output


together.early(MutualLeft)
