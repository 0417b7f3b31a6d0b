"""Files of the host that the driver role owns."""

from roles._shipping.apt import keep_from_upgrades
from roles._shipping.places import program

RELOAD = program("reload-modules")
CONTRIB = program("enable-contrib")
NOUVEAU = "/etc/modprobe.d/enginehouse-nouveau.conf"
PERSISTENCE = "/etc/systemd/system/nvidia-persistenced.service.d/52-enginehouse.conf"
UPGRADES, UPGRADES_CONTENT = keep_from_upgrades(
    "nvidia", ("^nvidia-", "^libnvidia-", "^libcuda1$", "^cuda-", "^firmware-nvidia", "^linux-modules-nvidia-")
)
