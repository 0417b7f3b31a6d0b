"""Files that the MIG role owns, and its settings (`mig_settings`)."""

from dataclasses import dataclass
from typing import Annotated

from pyinfra.api import Host

from deploy.inventory.knobs import SECONDS
from roles._pyinfra.settings import overridden
from roles._shipping.places import SETTINGS, unit
from roles.cards import BOOT_UNIT

UNIT_NAME = BOOT_UNIT
UNIT = unit(UNIT_NAME)
CUT = f"{SETTINGS}/mig.json"
REFRESH = "nvidia-cdi-refresh.service"


@dataclass(frozen=True)
class Defaults:
    """Seconds that a reboot may take, if a pending mode needs one."""

    reboot_seconds: Annotated[int, SECONDS] = 900
    """Seconds that a run waits for a host to return, if a pending mode needs a reboot."""


def settings(host: Host) -> Defaults:
    return overridden(host, "mig", Defaults())
