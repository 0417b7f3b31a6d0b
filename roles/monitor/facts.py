"""Facts of a host for the monitor role, asked in one command."""

from __future__ import annotations

from pyinfra.api import FactBase

from roles._pyinfra.facts import HostFacts, ask_files, ask_packages, ask_units, ask_value, script
from roles.monitor.defaults import ALERTS, ALL, CONFIG, PACKAGES, READ, RULES, runtime


def ask_sums(name: str) -> str:
    """Units whose process runs with an older unit or older files than those on the disk."""
    tests = [f"sha256sum --status -c {runtime(unit)}/{name} || echo {unit}" for unit in READ]
    return ask_value(name, "; ".join(tests))


class MonitorPrograms(FactBase[HostFacts]):
    """Packages, units, the files that are checked before they replace others, and the parts that are in force."""

    default = HostFacts

    def command(self) -> str:
        return script(
            ask_packages(*PACKAGES),
            ask_files(RULES, CONFIG, ALERTS),
            ask_units(*ALL),
            ask_sums("started"),
            ask_sums("loaded"),
        )

    def process(self, output: list[str]) -> HostFacts:
        return HostFacts.parse(output)
