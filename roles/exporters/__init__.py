"""Metrics of a host for monitors: node-exporter, dcgm-exporter if its image is declared, and one port for all pages.

Every exporter, Triton and the gateway keep their addresses; our own program forwards their pages, to the monitors'
addresses alone (files/host/metrics.py), behind the firewall. No step interrupts a server. The role is removed from a
host that no monitor reads any more.
"""

from pyinfra import host

from deploy.slices.monitor import ExportersSlice
from roles._pyinfra import undo
from roles._pyinfra.steps import CachedFact, ask, step
from roles.exporters import operations
from roles.exporters.facts import ExportersHost, ExportersLeft


def apply(exporters: ExportersSlice | None) -> None:
    """Opens the host's pages only to its monitors; removes everything of the role if there are no exporters."""
    if exporters:
        _apply(exporters)
    elif ask(host, ExportersLeft):
        step(
            CachedFact(ExportersLeft),
            operations.retired,
            name="Exporters | Remove the exporters: no monitor reads this host",
        )


def _apply(exporters: ExportersSlice) -> None:
    fact, wanted = CachedFact(ExportersHost), operations.texts(exporters)
    package = step(fact, operations.package, name="Exporters | Install node-exporter, its own unit masked")
    gone = step(fact, lambda facts: operations.unwanted(facts, exporters), name="Exporters | Remove dcgm-exporter")
    written = undo.put_texts("exporters", wanted, after=[package, gone], name="Exporters | Write units and pages")
    step(
        fact,
        lambda facts: operations.in_force(facts, operations.units_of(exporters)),
        after=[package, written],
        name="Exporters | Run the exporters",
    )
