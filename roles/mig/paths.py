"""Files of the host that the MIG role owns."""

from roles.places import SETTINGS, unit

UNIT_NAME = "enginehouse-mig.service"
UNIT = unit(UNIT_NAME)
CUT = f"{SETTINGS}/mig.json"
REFRESH = "nvidia-cdi-refresh.service"
