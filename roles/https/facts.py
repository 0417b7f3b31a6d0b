"""Facts of a host for HTTPS, asked in one command."""

from roles._pyinfra.facts import ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import LeftFact, RoleFact
from roles._shipping.haproxy import DISTRIBUTION
from roles.https.defaults import (
    CONFIG,
    DISTRIBUTION_TIMER,
    FOLDER,
    ORDER,
    ORDERED,
    ORDERED_CERTIFICATE,
    STARTED,
    TIMER,
    UNIT,
    UNIT_NAME,
)


class HttpsHost(RoleFact):
    """Packages, units, configuration, certificates, and whether HAProxy has read the current files."""

    def command(self, certificate: str) -> str:
        """`certificate` is the path of the operator's own certificate on the host, or empty."""
        key = f"{certificate}.key"
        return script(
            ask_packages("haproxy", "certbot"),
            ask_files(CONFIG),
            ask_units(UNIT_NAME, TIMER, DISTRIBUTION, DISTRIBUTION_TIMER),
            ask_value("key", f"[ -s {key} ] && stat -c '%a %U' {key}"),
            ask_value("ordered", f"[ ! -s {ORDERED_CERTIFICATE} ] || cat {ORDERED}"),
            ask_value("order", f"ls {ORDER}"),
            ask_value("spare", f"ls {FOLDER}/tls-*.pem{f' | grep -vxF {certificate}' if certificate else ''}"),
            ask_value("stale", f"sha256sum --status -c {STARTED} || echo stale"),
        )


class HttpsLeft(LeftFact):
    """True if the host has the role's unit although the inventory declares no HTTPS for it."""

    path = UNIT
