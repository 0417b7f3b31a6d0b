"""Files of the host that the firewall role owns."""

from roles._shipping.places import SETTINGS, program, unit

UNIT_NAME = "enginehouse-firewall.service"
RULES = f"{SETTINGS}/firewall.nft"
PROGRAM = program("firewall.sh")
UNIT = unit(UNIT_NAME)
