"""Prometheus, Alertmanager and blackbox-exporter from the distribution, on a host without servers.

Targets come from the plan, rules from `deploy.monitoring`. promtool or amtool checks a file before it replaces the
current one. Running programs reload it; they restart only if their unit changed. Each unit records the files of its
start and of its last reload, so that the next run finishes a killed one.
"""

from deploy.slices.monitor import MonitorSlice
from roles._pyinfra import undo
from roles._pyinfra.steps import CachedFact, step
from roles.monitor import operations
from roles.monitor.facts import MonitorPrograms


def apply(mine: MonitorSlice) -> None:
    """Runs the three programs with the targets, rules and receivers of the plan."""
    fact, wanted = CachedFact(MonitorPrograms), operations.texts(mine)
    package = step(fact, operations.package, name="Monitor | Install Prometheus, its own units masked")
    placed = undo.put_texts("monitor", wanted, after=[package], name="Monitor | Write units")
    ruled = step(
        fact,
        lambda facts: operations.rules(facts, mine),
        after=[package, placed],
        name="Monitor | Write rules and targets",
    )
    receivers = step(
        fact,
        lambda facts: operations.alerts(facts, mine),
        after=[package, placed],
        name="Monitor | Write the receivers of alerts",
    )
    step(
        fact,
        lambda facts: operations.in_force(facts, mine),
        after=[package, placed, ruled, receivers],
        name="Monitor | Run the services",
    )
