"""What the toolkit role settles by itself; an inventory overrides it under `container_toolkit_settings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import FINGERPRINT, URL
from roles._pyinfra.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """Repository and key. The version is the plan's (floor 1.19.1, CVE-2026-24260)."""

    repository: Annotated[str, URL] = "https://nvidia.github.io/libnvidia-container/stable/deb"
    """NVIDIA's own; `Mirrors(toolkit=…)` names another place."""
    key_url: Annotated[str, URL] = "https://nvidia.github.io/libnvidia-container/gpgkey"
    """Of the key that signs the repository."""
    key_fingerprint: Annotated[str, FINGERPRINT] = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
    """A key with another fingerprint is not trusted."""


def settings(host: Host) -> Defaults:
    """The defaults with this host's overrides."""
    return overridden(host, "container_toolkit", Defaults())
