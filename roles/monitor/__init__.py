"""Prometheus, Alertmanager and blackbox-exporter of the distribution, on a host without servers.

Targets are the plan's, rules those of `deploy.monitoring`. promtool or amtool reads a file before it replaces the one
in force. Programs that run read it again: they are restarted only for a unit that changed. Each unit records what it
was started with and what it has read, so a run that is killed anywhere is finished by the next.
"""

from __future__ import annotations

from deploy.slices.monitor import MonitorSlice
from roles._pyinfra import undo
from roles._pyinfra.steps import CachedFact, step
from roles.monitor import operations
from roles.monitor.facts import MonitorPrograms


def apply(mine: MonitorSlice) -> None:
    """The three programs run with the targets, rules and receivers of the plan."""
    fact, wanted = CachedFact(MonitorPrograms), operations.texts(mine)
    package = step(fact, operations.package, name="Monitor | Install Prometheus, its own units masked")
    placed = step(
        undo.texts_fact("monitor", wanted),
        lambda facts: undo.put_watched("monitor", wanted, facts),
        after=[package],
        name="Monitor | Write units",
    )
    ruled = step(
        fact,
        lambda facts: operations.rules(facts, mine),
        after=[package, placed],
        name="Monitor | Write rules and targets",
    )
    receivers = step(
        fact, lambda facts: operations.alerts(facts, mine), after=[package, placed], name="Monitor | Write who is told"
    )
    step(
        fact,
        lambda facts: operations.in_force(facts, mine),
        after=[package, placed, ruled, receivers],
        name="Monitor | Run them",
    )
