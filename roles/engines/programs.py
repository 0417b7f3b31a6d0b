"""The role's programs, unit and signers on the host."""

from __future__ import annotations

from deploy.spec import EngineTrust
from roles.engines.trust import signers
from roles.places import PROGRAMS, SETTINGS, UNITS
from roles.texts import HERE, Text, shipped

SOURCE = "files/engines"


def texts(trust: EngineTrust) -> list[Text]:
    """Every program of files/engines, the build's unit, and whose signatures this host believes."""
    names = sorted(path.name for path in (HERE / SOURCE).iterdir())
    return [
        *(shipped(f"{SOURCE}/{name}", f"{PROGRAMS}/{name}", "0755") for name in names if name.endswith(".py")),
        *(shipped(f"{SOURCE}/{name}", f"{UNITS}/{name}") for name in names if name.endswith(".service")),
        Text(f"{SETTINGS}/engine_signers", signers(trust)),
    ]
