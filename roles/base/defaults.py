"""The directories that every role needs, the base role's files, and its settings (`base_settings`)."""

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import Range
from deploy.models.files import ROOT
from roles._pyinfra.settings import overridden
from roles._shipping.places import PROBES, PROGRAMS, RELEASES, SERVERS, SETTINGS

JOURNAL = "/etc/systemd/journald.conf.d/52-enginehouse.conf"
NEEDRESTART = "/etc/needrestart/conf.d/52-enginehouse-units.conf"
NEEDRESTART_CONTENT = "$nrconf{override_rc}{qr(^enginehouse-)} = 0;\n"
"""Exceptions for needrestart, which restarts programs with old libraries, on Ubuntu 24.04 without asking: a restarted
gateway would cut its open streams."""
SOURCES = "/etc/apt/apt.conf.d/52enginehouse-sources"
"""Setting that makes apt read only mirrors, while the inventory names a mirror of the distribution."""
SYSTEM_LIST, PARTS = f"{SETTINGS}/apt/system.list", f"{SETTINGS}/apt/parts"
SYSTEM_KEY = "/etc/apt/keyrings/enginehouse-system.asc"
REPOSITORIES = ("nvidia", "docker", "container-toolkit")
DIRECTORIES = (SETTINGS, PROGRAMS, ROOT, f"{ROOT}/weights", RELEASES, SERVERS, PROBES)


@dataclass(frozen=True)
class Defaults:
    """Packages of every host, and limits of its journal."""

    packages: tuple[str, ...] = ("ca-certificates", "curl", "iptables", "openssh-client", "python3", "rsync")
    """iptables closes the way out of Triton's network, and openssh-client has the ssh-keygen that checks engines'
    signatures. Both are named here, because no other package is sure to bring them."""
    journal_max_mib: Annotated[int, Range(16, 1_000_000)] = 2048
    """The container's log ends in the journal; the distribution's bound is a tenth of the disk, up to 4 GiB."""


def settings(host: Host) -> Defaults:
    return overridden(host, "base", Defaults())
