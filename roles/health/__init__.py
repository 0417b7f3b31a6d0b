"""Supervision of a host between deploys: a watchdog for each server, the GPUs' state as metric and as gate, repairs.

The role installs only programs and timers, which interrupt no server. The gate is part of the swap's unit, so it also
applies to rollback.py and to a unit started by hand.
"""

from collections.abc import Iterator

from pyinfra import host

from deploy.slices.host import Slice
from roles._pyinfra import undo
from roles._pyinfra.steps import CachedFact, Command, ask, step
from roles._shipping.texts import put
from roles._shipping.units import kept_running
from roles.health.defaults import settings
from roles.health.facts import RepairLeft, RepairService, Timers
from roles.health.operations import GPU_TIMER, REPAIR_UNIT, no_repairs, texts, timers


def apply(mine: Slice) -> None:
    """Installs a watchdog for every server, a timer for the GPUs, and a gate for each swap."""
    chosen = settings(host)
    wanted = texts(mine, chosen)

    def install(installed: dict[str, str]) -> Iterator[Command]:
        changes = "\n".join(str(command) for command in put(wanted, installed))
        # A running timer keeps its old times, and a running service its settings.
        more = [f"systemctl try-restart 'enginehouse-watch@*.timer' {GPU_TIMER}"] if ".timer" in changes else []
        more += [f"systemctl try-restart {REPAIR_UNIT}"] if "repair." in changes else []
        yield from undo.put_watched("health", wanted, installed, *more)

    placed = step(undo.texts_fact("health", wanted), install, name="Health | Install watchdog and GPU state")
    step(CachedFact(Timers), lambda states: timers(mine, states), name="Health | Run the timers")
    if mine.repair:
        service = CachedFact(RepairService)
        name = "Health | Repair GPUs: run the service"
        step(service, lambda facts: kept_running(facts, REPAIR_UNIT), after=[placed], name=name)
    elif ask(host, RepairLeft):
        step(CachedFact(RepairLeft), no_repairs, name="Health | Stop repairs of GPUs: the inventory allows none")
