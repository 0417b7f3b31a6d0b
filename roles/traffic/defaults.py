"""Names on the host that the traffic role owns."""

from roles._shipping.places import SETTINGS

UNIT = "enginehouse-traffic.service"
USER = "enginehouse-traffic"
WANTED = f"{SETTINGS}/traffic.json"
