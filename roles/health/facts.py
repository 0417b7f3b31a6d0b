"""The timers of this role that a host runs."""

from dataclasses import dataclass

from pyinfra.api import FactBase

from roles._pyinfra.facts import ask_units, script
from roles._pyinfra.role_facts import LeftFact, RoleFact
from roles._shipping.places import SERVERS, UNITS


@dataclass(frozen=True)
class TimerStates:
    """Timers that start at boot, running timers, and timers of servers that still have a release."""

    enabled: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()


class Timers(FactBase[TimerStates]):
    """Fact: the host's timers; none on a bare host."""

    def command(self) -> str:
        wants = f"{UNITS}/timers.target.wants"
        return (
            f"for f in {wants}/enginehouse-watch@*.timer {wants}/enginehouse-gpu-state.timer; do"
            ' if [ -L "$f" ]; then t=$(basename "$f"); echo "enabled=$t";'
            ' systemctl is-active --quiet "$t" && echo "running=$t"; s=${t#enginehouse-watch@};'
            f' [ -L "{SERVERS}/${{s%.timer}}/current" ] && echo "needed=$t"; fi; done; true'
        )

    @staticmethod
    def default() -> TimerStates:
        return TimerStates()

    def process(self, output: list[str]) -> TimerStates:
        pairs = [line.partition("=")[::2] for line in output]
        return TimerStates(
            *(frozenset(name for kind, name in pairs if kind == state) for state in ("enabled", "running", "needed"))
        )


class RepairService(RoleFact):
    """State of the service that repairs GPUs: True if it runs, and if it starts at boot."""

    def command(self) -> str:
        return script(ask_units("enginehouse-repair.service"))


class RepairLeft(LeftFact):
    """True if the host has the service that repairs GPUs although the inventory allows no repair."""

    path = f"{UNITS}/enginehouse-repair.service"
