"""The proxy of one host, with everything that the host reaches without it."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from deploy.spec import Secret


@dataclass(frozen=True, kw_only=True)
class ProxySlice:
    """`direct` has the declared names and loopback; `fleet` has the inventory's hosts, which Docker never contacts."""

    url: str
    username: str
    password: Secret | None
    direct: tuple[str, ...]
    fleet: tuple[str, ...]

    @property
    def place(self) -> tuple[str, str]:
        """Host and port of the proxy, from its URL."""
        name, _, port = self.url.partition("://")[2].strip("/").rpartition(":")
        return name.strip("[]"), port


def reached_directly(name: str, direct: Iterable[str]) -> bool:
    """True if a name or an address is in `direct`, in one of its domains or in one of its networks."""
    return any(name == place or _covers(place, name) for place in direct)


def _covers(place: str, name: str) -> bool:
    if place.startswith("."):
        return name.endswith(place)
    try:
        return "/" in place and ipaddress.ip_address(name) in ipaddress.ip_network(place)
    except ValueError:
        return False
