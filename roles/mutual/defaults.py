"""Paths, users and units on the host that the role owns, and its settings (`mutual_settings`).

roles/_shipping/certificates.py reads them, for this role and for gateways.
"""

from dataclasses import dataclass

from deploy.io.authority import FOLDER as AUTHORITY_FOLDER
from roles._shipping.places import RUNTIME, SETTINGS, unit

FOLDER = f"{SETTINGS}/mutual"
CONFIG = f"{FOLDER}/haproxy.cfg"
CERTIFICATE, AUTHORITY = f"{FOLDER}/host.pem", f"{FOLDER}/authority.pem"
"""Files of the host's private key with its certificate, and of the authorities that it trusts."""
STARTED = f"{RUNTIME}/mutual/started"
"""Sums of the files that the running HAProxy has read."""
UNIT_NAME = "enginehouse-mutual.service"
UNIT = unit(UNIT_NAME)


@dataclass(frozen=True)
class Defaults:
    """The place of the fleet's authority."""

    authority: str = AUTHORITY_FOLDER
    """Folder of the control machine with the key that signs certificates; back it up, and keep it out of the clone."""
