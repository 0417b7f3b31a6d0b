"""Facts of a host for mutual TLS, asked in one command."""

from roles._pyinfra.facts import ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import LeftFact, RoleFact
from roles._shipping.certificates import ask_certificate
from roles._shipping.haproxy import DISTRIBUTION
from roles.mutual.defaults import AUTHORITY, CERTIFICATE, CONFIG, STARTED, UNIT, UNIT_NAME


class MutualHost(RoleFact):
    """HAProxy's package and units, our configuration and certificate, and whether HAProxy has read the current
    files."""

    def command(self) -> str:
        return script(
            ask_packages("haproxy"),
            ask_files(CONFIG),
            ask_certificate(CERTIFICATE, AUTHORITY),
            ask_units(UNIT_NAME, DISTRIBUTION),
            ask_value("stale", f"sha256sum --status -c {STARTED} || echo stale"),
        )


class MutualLeft(LeftFact):
    """True if the host has the role's unit although no gateway of another host uses it."""

    path = UNIT
