"""Further keys of support hosts, and the types of their values."""

from collections.abc import Mapping
from typing import Any

from deploy.spec import EngineTrust, Firewall, Mirrors, Proxy

SUPPORT_KEYS = {
    "firewall": Firewall | None,
    "proxy": Proxy | None,
    "connected": bool,
    "bundle": str,
    "engine_trust": EngineTrust | None,
    "mirrors": Mirrors,
}
"""Keys that support hosts may have besides their own, with the type of each value."""


def support_data(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: data[key] for key in SUPPORT_KEYS if key in data}
