"""Files that the driver role owns, and its settings (`nvidia_driver_settings`)."""

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import FINGERPRINT, SECONDS, URL
from roles._pyinfra.settings import overridden
from roles._shipping.apt import keep_from_upgrades
from roles._shipping.places import program

RELOAD = program("reload-modules")
CONTRIB = program("enable-contrib")
NOUVEAU = "/etc/modprobe.d/enginehouse-nouveau.conf"
PERSISTENCE = "/etc/systemd/system/nvidia-persistenced.service.d/52-enginehouse.conf"
UPGRADES, UPGRADES_CONTENT = keep_from_upgrades(
    "nvidia", ("^nvidia-", "^libnvidia-", "^libcuda1$", "^cuda-", "^firmware-nvidia", "^linux-modules-nvidia-")
)


@dataclass(frozen=True)
class Defaults:
    """NVIDIA's repository, and seconds that a reboot may take."""

    repository: Annotated[str, URL] = "https://developer.download.nvidia.com/compute/cuda/repos"
    """NVIDIA's own; `Mirrors(nvidia=…)` names another place."""
    key_file_name: str = ""
    """Name of NVIDIA's key file; empty: the catalog's for this OS (`System.nvidia_key`). Set together with the
    fingerprint."""
    key_fingerprint: Annotated[str, FINGERPRINT] = ""
    """Fingerprint of the key; empty: the catalog's for this OS. A key with another fingerprint is not trusted."""
    reboot_seconds: Annotated[int, SECONDS] = 900
    """Seconds for a reboot: a machine with eight GPUs and two terabytes of memory trains its memory for many minutes.
    """


def settings(host: Host) -> Defaults:
    return overridden(host, "nvidia_driver", Defaults())
