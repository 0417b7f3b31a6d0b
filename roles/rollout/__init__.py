"""The gate: what makes a wave a wave.

pyinfra drops a host that fails and goes on with the rest, and it orders operations by source line, so that without an
operation every host runs, all waves would drain before the first had swapped (measured on pyinfra 3.10.0). The gate
runs on every host. While the wave is whole it does nothing; once the wave has lost a host, failed or unreachable, it
stops everyone who is left.
"""

from __future__ import annotations

from collections.abc import Collection, Generator

from pyinfra import host, state
from pyinfra.api import State, operation

from deploy.errors import Refusal
from roles.steps import Refuse

UNTOUCHED = "before the first change; every host serves what it served"
BEGUN = "finished waves are done and stay so; on all other hosts nothing further happens"
AGAIN = "mend it, or leave it out of the inventory, and run again: what is done is not done twice"


@operation()
def gate(wave: Collection[str], state_then: str = BEGUN, attempt: str = AGAIN) -> Generator[Refuse, None, None]:
    """Nothing while every host of `wave` is still with us; else this host goes no further, and says who is missing.

    `state_then` is what the message says of the fleet: `UNTOUCHED` at a gate that comes before anything acts; `attempt`
    is what to type next.
    """
    missing = lost(state, wave)
    if not missing:
        host.noop("the wave is whole")
        return
    yield Refuse(stopped(missing, len(wave), state_then, attempt))


def lost(run: State, wave: Collection[str]) -> tuple[str, ...]:
    """Hosts of the wave that failed, or never answered."""
    left = {peer.name for peer in run.active_hosts}
    return tuple(sorted(name for name in wave if name not in left))


def stopped(missing: tuple[str, ...], size: int, state_then: str = BEGUN, attempt: str = AGAIN) -> Refusal:
    """The refusal that every remaining host raises."""
    shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
    return Refusal(
        f"the gate stays shut: {len(missing)} of {size} hosts are lost",
        facts={
            "lost": shown,
            "means": "an operation failed there, or it could not be reached; its own lines are above",
        },
        attempt=attempt,
        state=state_then,
        kind="gate",
    )
