"""What the base role settles by itself; an inventory overrides it under `base_settings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import Range
from roles._pyinfra.settings import overridden


@dataclass(frozen=True)
class Defaults:
    """Packages and limits."""

    packages: tuple[str, ...] = ("ca-certificates", "curl", "iptables", "openssh-client", "python3", "rsync")
    """iptables closes the way out of Triton's network, and openssh-client has the ssh-keygen that checks who signed an
    engine: asked for here, not left to what something else depends on."""
    journal_max_mib: Annotated[int, Range(16, 1_000_000)] = 2048
    """The container's log ends in the journal; the distribution's bound is a tenth of the disk, up to 4 GiB."""


def settings(host: Host) -> Defaults:
    """The defaults with this host's overrides."""
    return overridden(host, "base", Defaults())
