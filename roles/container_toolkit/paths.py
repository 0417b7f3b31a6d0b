"""Packages of the toolkit, and files of the host that its role owns or reads."""

from roles._shipping.apt import keep_from_upgrades
from roles._shipping.places import PROBES, program

PACKAGES = (
    *("nvidia-container-toolkit", "nvidia-container-toolkit-base"),
    *("libnvidia-container-tools", "libnvidia-container1"),
)
UNITS = ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path")
# Files of earlier instructions; apt warns about their keys, or stops where they name today's repository.
OLD_LISTS = ("nvidia-docker", "libnvidia-container", "nvidia-container-runtime", "nvidia-container-toolkit")
SPECIFICATIONS = "/var/run/cdi/nvidia.yaml /etc/cdi/nvidia.yaml"
PROVE = program("prove-gpu-container")
PROVEN = f"{PROBES}/gpu-container"
UPGRADES, UPGRADES_CONTENT = keep_from_upgrades("container-toolkit", ("^nvidia-container-", "^libnvidia-container"))
