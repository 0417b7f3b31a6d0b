"""Facts of a host for the exporters role, asked in one command."""

from pyinfra.api import FactBase

from roles._pyinfra import fact_batch
from roles._pyinfra.facts import ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles.exporters.defaults import ALL, COUNTERS, PACKAGE, PAGES, started, unit_path


def ask_stale(*names: str) -> str:
    """Names of units that do not run with the current files; each unit records the files of its start."""
    return ask_value("stale", "; ".join(f"sha256sum --status -c {started(name)} || echo {name}" for name in names))


class ExportersHost(RoleFact):
    """The package, our units, and the units that do not run with the current files."""

    def command(self) -> str:
        return script(ask_packages(PACKAGE), ask_units(*ALL), ask_stale(*ALL))


class ExportersLeft(FactBase[list[str]]):
    """Files of the role that are still on the host."""

    default = list

    def command(self) -> str:
        return f"ls -d {' '.join([*map(unit_path, ALL), PAGES, COUNTERS])} 2>/dev/null; true"

    def process(self, output: list[str]) -> list[str]:
        return [line for line in output if line.startswith("/")]


fact_batch.early(ExportersLeft)
