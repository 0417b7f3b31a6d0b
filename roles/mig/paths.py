"""Files of the host that the MIG role owns."""

from roles._shipping.places import SETTINGS, unit
from roles.cards import BOOT_UNIT

UNIT_NAME = BOOT_UNIT
UNIT = unit(UNIT_NAME)
CUT = f"{SETTINGS}/mig.json"
REFRESH = "nvidia-cdi-refresh.service"
