"""The role's unit and signers on the host."""

from __future__ import annotations

from deploy.spec import EngineTrust
from roles.engines.trust import signers
from roles.places import SETTINGS, UNITS
from roles.texts import Text, shipped


def texts(trust: EngineTrust) -> list[Text]:
    """The build's unit, and whose signatures this host believes."""
    return [
        shipped("files/units/enginehouse-build@.service", f"{UNITS}/enginehouse-build@.service"),
        Text(f"{SETTINGS}/engine_signers", signers(trust)),
    ]
