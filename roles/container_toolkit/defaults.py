"""Packages and files of the container toolkit, and the role's settings (`container_toolkit_settings`)."""

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import FINGERPRINT, URL
from roles._pyinfra.settings import overridden
from roles._shipping.apt import keep_from_upgrades
from roles._shipping.places import PROBES, program

PACKAGES = (
    *("nvidia-container-toolkit", "nvidia-container-toolkit-base"),
    *("libnvidia-container-tools", "libnvidia-container1"),
)
UNITS = ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path")
# Files of earlier instructions; apt warns about their keys, or fails if they name today's repository.
OLD_LISTS = ("nvidia-docker", "libnvidia-container", "nvidia-container-runtime", "nvidia-container-toolkit")
SPECIFICATIONS = "/var/run/cdi/nvidia.yaml /etc/cdi/nvidia.yaml"
PROVE = program("prove-gpu-container")
PROVEN = f"{PROBES}/gpu-container"
UPGRADES, UPGRADES_CONTENT = keep_from_upgrades("container-toolkit", ("^nvidia-container-", "^libnvidia-container"))


@dataclass(frozen=True)
class Defaults:
    """Repository and key. The version is in the plan (floor 1.19.1, CVE-2026-24260)."""

    repository: Annotated[str, URL] = "https://nvidia.github.io/libnvidia-container/stable/deb"
    """NVIDIA's own; `Mirrors(toolkit=…)` names another place."""
    key_url: Annotated[str, URL] = "https://nvidia.github.io/libnvidia-container/gpgkey"
    """URL of the key that signs the repository."""
    key_fingerprint: Annotated[str, FINGERPRINT] = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
    """A key with another fingerprint is not trusted."""


def settings(host: Host) -> Defaults:
    return overridden(host, "container_toolkit", Defaults())
