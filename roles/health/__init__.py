"""What looks after a host while nobody does: a watchdog for each server, the GPUs' state as metric and as gate.

Programs and timers only; they interrupt nothing. The gate hangs on the swap's unit, so it also stands before
rollback.py and before whoever starts that unit by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import StringCommand

from deploy.slice import Slice
from roles.health.defaults import settings
from roles.health.facts import Timers
from roles.health.operations import texts, timers
from roles.steps import Reading, step
from roles.texts import Seen, put


def apply(mine: Slice) -> None:
    """Every server has its watchdog, the GPUs their timer, and each swap its gate."""
    chosen = settings(host)
    wanted = texts(mine, chosen)
    seen = Reading(Seen, {"paths": tuple(text.path for text in wanted)})

    def install(found: dict[str, str]) -> Iterator[StringCommand]:
        commands = list(put(wanted, found))
        yield from commands
        if any(".timer" in str(command) for command in commands):
            yield StringCommand("systemctl try-restart 'enginehouse-*.timer'")  # a running one keeps its old times

    step(seen, install, name="Health | Install watchdog and GPU state")
    step(Reading(Timers), lambda found: timers(mine, found), name="Health | Run the timers")
