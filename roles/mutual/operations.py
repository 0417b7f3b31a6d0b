"""Commands for the difference between the role's facts and the wanted state. Pure; `step` runs them."""

from collections.abc import Iterator

from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command
from roles._shipping.texts import Text, shipped
from roles.mutual.defaults import FOLDER, UNIT, UNIT_NAME


def unit() -> Text:
    return shipped(f"files/units/{UNIT_NAME}", UNIT)


def in_force(facts: HostFacts) -> Iterator[Command]:
    """Commands after which HAProxy runs with the current files, now and after a boot."""
    service = facts.unit(UNIT_NAME)
    if not service.starts_at_boot:
        yield f"systemctl enable {UNIT_NAME}"
    if facts.value("stale") or not service.runs:
        yield f"systemctl reload-or-restart {UNIT_NAME} || {{ journalctl -q -u {UNIT_NAME} -n 8 -o cat >&2; false; }}"


def retired(is_left: bool) -> Iterator[Command]:
    if is_left:
        # The unit is removed last, so that the run after a killed one still finds it.
        yield (f"systemctl disable --now {UNIT_NAME}; rm -rf {FOLDER} && rm -f {UNIT} && systemctl daemon-reload")
