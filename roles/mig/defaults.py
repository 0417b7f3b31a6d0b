"""What the MIG role settles by itself; an inventory overrides it under `mig_settings`."""

from __future__ import annotations

from dataclasses import dataclass

from pyinfra.api import Host

from roles.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """How long a reboot may take, where a pending mode needs one."""

    reboot_seconds: int = 900


def settings(host: Host) -> Defaults:
    """The defaults with this host's overrides."""
    return overridden(host, "mig", Defaults())
