"""Files of the host that the MIG role owns."""

from roles.cards import BOOT_UNIT
from roles.places import SETTINGS, unit

UNIT_NAME = BOOT_UNIT
UNIT = unit(UNIT_NAME)
CUT = f"{SETTINGS}/mig.json"
REFRESH = "nvidia-cdi-refresh.service"
