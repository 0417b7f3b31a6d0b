"""The role's programs, unit and signers on the host."""

from __future__ import annotations

from deploy.spec import EngineTrust
from roles.engines.trust import signers
from roles.places import PROGRAMS, SETTINGS, UNITS
from roles.texts import Text, shipped

SOURCE = "files/host"
NAMES = ("build.py", "build_causes.py", "build_container.py", "build_flags.py", "build_result.py", "build_room.py")


def texts(trust: EngineTrust) -> list[Text]:
    """The programs that build and judge, the build's unit, and whose signatures this host believes."""
    return [
        *(shipped(f"{SOURCE}/{name}", f"{PROGRAMS}/{name}", "0755") for name in (*NAMES, "engine.py", "replay.py")),
        shipped("files/units/enginehouse-build@.service", f"{UNITS}/enginehouse-build@.service"),
        Text(f"{SETTINGS}/engine_signers", signers(trust)),
    ]
