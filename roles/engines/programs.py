"""The role's unit and signers on the host."""

from deploy.spec import EngineTrust
from roles._shipping.places import SETTINGS, UNITS
from roles._shipping.texts import Text, shipped
from roles.engines.trust import signers


def texts(trust: EngineTrust) -> list[Text]:
    return [
        shipped("files/units/enginehouse-build@.service", f"{UNITS}/enginehouse-build@.service"),
        Text(f"{SETTINGS}/engine_signers", signers(trust)),
    ]
