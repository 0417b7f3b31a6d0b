"""Loads the installed module into the running kernel: by a load, a reload, or one confirmed reboot."""

from collections.abc import Iterator

from roles._pyinfra import boots
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command
from roles.nvidia_driver import defaults
from roles.nvidia_driver.defaults import Defaults
from roles.nvidia_driver.versions import HostDriver, State

HELD = 75
"""Exit status of reload-modules when something has the GPU open."""


def load(facts: HostFacts) -> Iterator[Command]:
    """The command that loads or reloads the modules; modules in use are left to `reboot`."""
    state = HostDriver.of(facts).state
    if state is State.NEEDS_LOAD:
        yield defaults.RELOAD
    elif state is State.NEEDS_RELOAD:
        yield f"{defaults.RELOAD} || [ $? -eq {HELD} ]"


def reboot(facts: HostFacts, chosen: Defaults) -> Iterator[Command]:
    if HostDriver.of(facts).state in (State.NEEDS_REBOOT, State.NEEDS_RELOAD):
        yield from boots.reboot(facts.value("boot"), chosen.reboot_seconds)
