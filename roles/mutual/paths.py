"""Names on the host that the role owns."""

from roles._shipping.places import RUNTIME, SETTINGS, unit

FOLDER = f"{SETTINGS}/mutual"
CONFIG = f"{FOLDER}/haproxy.cfg"
CERTIFICATE, AUTHORITY = f"{FOLDER}/host.pem", f"{FOLDER}/authority.pem"
"""Private key and certificate of the host together, and whose certificates it believes."""
STARTED = f"{RUNTIME}/mutual/started"
"""Sums of the files that the running HAProxy has read."""
UNIT_NAME = "enginehouse-mutual.service"
UNIT = unit(UNIT_NAME)
