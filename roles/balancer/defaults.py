"""Files of a balancer that the role owns."""

from dataclasses import dataclass

from roles._shipping.places import RUNTIME, SETTINGS, unit


@dataclass(frozen=True)
class Places:
    """HAProxy's directories, and the user it switches to (empty: keep the current user)."""

    settings: str = f"{SETTINGS}/balancer"
    run: str = f"{RUNTIME}/balancer"
    user: str = "haproxy"


PLACES = Places()
CONFIG = f"{PLACES.settings}/haproxy.cfg"
HOLD = f"{PLACES.settings}/hold.lua"
UNIT_NAME = "enginehouse-balancer.service"
UNIT = unit(UNIT_NAME)
