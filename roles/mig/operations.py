"""Commands for the difference between the MIG facts and the wanted state. Pure; `step` runs them."""

import json
from collections.abc import Iterator
from pathlib import Path

from deploy.slices.host import Slice
from roles._pyinfra import boots
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse, write
from roles._shipping.places import command
from roles.cards import NEVER, OFF, ON, gpus, is_cut, placements
from roles.mig import defaults, verify
from roles.mig.defaults import Defaults

FILES = Path(__file__).parents[2] / "files"
PENDING = 75
"""Exit status of the program if the mode needs a reboot, which `reboot` then does."""


def settings(mine: Slice) -> str:
    """JSON that the program reads: for each instance of a GPU its profile and its place on the card."""
    rows = [{"profile": profile.name, "id": profile.profile_id, "start": start} for profile, start in placements(mine)]
    return json.dumps({"gpus": mine.machine.gpus, "instances": rows}, indent=2) + "\n"


def files(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    """Commands that place the settings and the unit that runs it at boot."""
    yield from _place(facts, settings(mine))
    service = (FILES / "units" / defaults.UNIT_NAME).read_text()
    if not facts.holds(defaults.UNIT, service):
        yield write(defaults.UNIT, service, then=f"systemctl daemon-reload && systemctl enable {defaults.UNIT_NAME}")
    elif not facts.unit(defaults.UNIT_NAME).starts_at_boot:
        yield f"systemctl enable {defaults.UNIT_NAME}"


def cut(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    """Commands that cut the GPUs and make a new CDI specification; no command for GPUs that are already cut, a refusal
    for GPUs in use."""
    if is_cut(facts, mine):
        return
    if any(gpu.current == NEVER for gpu in gpus(facts)):
        yield Refuse(verify.no_mig(mine))
    elif facts.value("users"):
        yield Refuse(verify.in_use(facts, mine))
    else:
        yield from _run(facts)


def make_whole(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    """Commands that turn MIG off and remove the boot unit; no command if MIG is off, a refusal if instances are in
    use."""
    if not is_cut(facts, mine):
        if facts.value("users"):
            yield Refuse(verify.in_use(facts, mine))
            return
        yield from _place(facts, settings(mine))
        yield from _run(facts)
    if defaults.UNIT in facts.files:
        yield f"systemctl disable {defaults.UNIT_NAME}; rm -f {defaults.UNIT} && systemctl daemon-reload"
    if defaults.CUT in facts.files or not is_cut(facts, mine):
        yield f"rm -f {defaults.CUT}"


def reboot(facts: HostFacts, mine: Slice, chosen: Defaults) -> Iterator[Command]:
    """Commands that reboot if the mode needs it; afterwards the boot unit has ended."""
    wanted = ON if mine.mig else OFF
    if any(gpu.pending == wanted != gpu.current for gpu in gpus(facts)):
        yield from boots.reboot(facts.value("boot"), chosen.reboot_seconds)
        if mine.mig:
            yield f"systemctl start {defaults.UNIT_NAME}"


def _place(facts: HostFacts, content: str) -> Iterator[Command]:
    if not facts.holds(defaults.CUT, content):
        yield write(defaults.CUT, content)


def _run(facts: HostFacts) -> Iterator[Command]:
    yield f"{command('mig')} apply || [ $? -eq {PENDING} ]"
    # No notification of a changed cut is needed: the path unit watches the driver's files.
    if facts.unit(defaults.REFRESH).exists:
        yield f"systemctl restart {defaults.REFRESH}"
