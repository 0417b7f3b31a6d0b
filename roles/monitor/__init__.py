"""Prometheus, Alertmanager and blackbox-exporter of the distribution, on a host that serves nothing.

Targets are the plan's, rules those of `deploy.monitoring`. A file is read by promtool or amtool before it replaces the one in
force, and programs that run read it again: they are restarted only for a unit that changed. Each unit writes down what
it was started with and what it has read, so a run that is killed anywhere is finished by the next.
"""

from __future__ import annotations

from deploy.slices.monitor import MonitorSlice
from roles._pyinfra import undo
from roles._pyinfra.steps import Reading, step
from roles.monitor import operations
from roles.monitor.facts import MonitorPrograms


def apply(mine: MonitorSlice) -> None:
    """The three programs run with the targets, rules and receivers of the plan."""
    look, wanted = Reading(MonitorPrograms), operations.texts(mine)
    package = step(look, operations.package, name="Monitor | Install Prometheus, its own units masked")
    placed = step(
        undo.look("monitor", wanted),
        lambda seen: undo.put_watched("monitor", wanted, seen),
        after=[package],
        name="Monitor | Write units",
    )
    ruled = step(
        look,
        lambda seen: operations.rules(seen, mine),
        after=[package, placed],
        name="Monitor | Write rules and targets",
    )
    told = step(
        look, lambda seen: operations.alerts(seen, mine), after=[package, placed], name="Monitor | Write who is told"
    )
    step(
        look,
        lambda seen: operations.in_force(seen, mine),
        after=[package, placed, ruled, told],
        name="Monitor | Run them",
    )
