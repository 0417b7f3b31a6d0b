"""Paths, users and units on the host that the traffic role owns."""

from roles._shipping.places import SETTINGS

UNIT = "enginehouse-traffic.service"
USER = "enginehouse-traffic"
WANTED = f"{SETTINGS}/traffic.json"
NOTICES_UNIT = "enginehouse-notices.service"
NOTICES = f"{SETTINGS}/notices.json"
MARGIN_SECONDS = 5
"""Seconds before the end of a reclaimed host at which its servers stop and unfinished answers are cut."""
