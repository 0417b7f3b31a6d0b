"""Paths, users and units on the host that the gateway role owns, and its settings (`gateway_settings`)."""

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import ATTEMPTS, SECONDS
from roles._pyinfra.settings import overridden
from roles._shipping.places import PROGRAMS, SETTINGS, UNITS

USER = "enginehouse-gateway"
UNIT = "enginehouse-gateway@.service"
UNIT_PATH = f"{UNITS}/{UNIT}"
FOLDER = f"{SETTINGS}/gateway"
WANTED = f"{FOLDER}/settings.json"
KEYS = f"{FOLDER}/keys.json"
SALT = f"{FOLDER}/salt"
"""The secret that keeps tenants' cached prefixes apart. Every host makes its own secret, so no secret is sent or stored
elsewhere. If two gateways send to one server, a tenant's prefixes are cached once for each gateway."""
CERTIFICATE, AUTHORITY = f"{FOLDER}/mutual.pem", f"{FOLDER}/authority.pem"
"""Private key and certificate of the gateway, and the fleet's authority, if it sends to servers of other hosts."""
SHARED = "/run/enginehouse-gateway"
"""Directory of the keys' usage that processes share: the unit's RuntimeDirectory."""
HOME = f"{PROGRAMS}/gateway"
ENVIRONMENTS = f"{HOME}/environments"
VERSIONS = f"{HOME}/versions"


@dataclass(frozen=True)
class Defaults:
    """Time limits of the transfer of Python packages to a host."""

    fetch_seconds: Annotated[int, SECONDS] = 1800
    """Seconds for the control machine's pip to fetch the wheels of one Python, some 60 MB."""
    rsync_seconds: Annotated[int, SECONDS] = 3600
    """Seconds for one attempt to send them."""
    rsync_attempts: Annotated[int, ATTEMPTS] = 5
    """Attempts; sent bytes are kept between them."""


def settings(host: Host) -> Defaults:
    return overridden(host, "gateway", Defaults())
