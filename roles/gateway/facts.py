"""Facts of a host for the gateway role, asked in one command."""

from pyinfra.api import FactBase

from roles._pyinfra.facts import ask_packages, ask_value, script
from roles._pyinfra.role_facts import LeftFact, RoleFact
from roles._shipping import programs
from roles._shipping.certificates import ask_certificate
from roles._shipping.places import PROGRAMS, command
from roles.gateway.defaults import AUTHORITY, CERTIFICATE, FOLDER, KEYS, SALT, UNIT_PATH, USER

COMPLETE = "complete"
"""File that marks an environment with every package installed."""


class GatewayHost(RoleFact):
    """Packages, user, folder and keys, environment and programs."""

    def command(self, environment: str, version: str) -> str:
        return script(
            ask_packages("python3-venv", "libseccomp2"),
            ask_value("user", f"id -u {USER}"),
            ask_value("folder", f"stat -c '%a %U %G' {FOLDER}"),
            ask_value("keys", f"[ ! -e {KEYS} ] || echo there"),
            ask_value("salt", f"[ ! -s {SALT} ] || stat -c '%a %U %G' {SALT}"),
            ask_value("environment", f"[ ! -e {environment}/{COMPLETE} ] || echo complete"),
            ask_value("version", programs.digest_command(f"{version}/gateway")),
        )


class GatewayCertificate(RoleFact):
    """The certificate that a gateway shows to servers of other hosts, and the authorities it trusts."""

    def command(self) -> str:
        return script(ask_certificate(CERTIFICATE, AUTHORITY))


class NotInForce(FactBase[list[str]]):
    """A line for each difference between the running gateway and its files; none on a host without the programs."""

    default = list

    def command(self) -> str:
        return f"[ ! -e {PROGRAMS}/host ] || {command('gateway')} differs || echo asked"

    def process(self, output: list[str]) -> list[str]:
        return [line for line in output if line.strip()]


class GatewayLeft(LeftFact):
    """True if the host has a gateway that the inventory does not declare."""

    path = UNIT_PATH
