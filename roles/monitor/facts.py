"""Facts of a host for the monitor role, asked in one command."""

from roles._pyinfra.facts import ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles.monitor.defaults import ALERTS, ALL, CONFIG, PACKAGES, READ, RULES, runtime


def ask_sums(name: str) -> str:
    """The command for units whose process runs with an older unit or older files than those on the disk."""
    tests = [f"sha256sum --status -c {runtime(unit)}/{name} || echo {unit}" for unit in READ]
    return ask_value(name, "; ".join(tests))


class MonitorPrograms(RoleFact):
    """Packages, units, the files that are checked before their replacement, and the parts that are in force."""

    def command(self) -> str:
        return script(
            ask_packages(*PACKAGES),
            ask_files(RULES, CONFIG, ALERTS),
            ask_units(*ALL),
            ask_sums("started"),
            ask_sums("loaded"),
        )
