"""The doctor's findings on repairs of GPUs, from the host's metrics."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.doctor.finding import Finding
from host.repair.main import EMPTY
from host.repair.metrics import metrics
from tests.unit.doctored import NOW, examined


def seen(looked: float = NOW - 60.0, **changes: Any) -> tuple[Finding, ...]:
    """The findings of a host whose program reports this state."""
    lines = metrics(EMPTY | changes | {"looked": looked}).splitlines()
    return examined({"repair": "\n".join(line for line in lines if line[0] != "#")})


def test_a_host_with_healthy_gpus_has_no_repair_finding() -> None:
    assert seen() == ()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"why": "GPU 0: …", "waits": "h2 is out"}, "repair-waits"),
        ({"why": "GPU 0: …", "phase": "reset"}, "repair-active"),
        ({"why": "GPU 0: …", "person": "another card is needed"}, "repair-person"),
    ],
)
def test_a_repair_is_reported_with_its_state_and_earlier_repairs(changes: dict[str, str], kind: str) -> None:
    (finding,) = seen(totals={"reset repaired": 2, "reboot failed": 1}, **changes)
    assert (finding.id, finding.evidence) == (kind, "so far: 2 reset repaired, 1 reboot failed")


def test_a_program_that_does_not_look_is_named_with_its_last_look() -> None:
    (finding,) = seen(looked=NOW - 8000.0)
    assert (finding.id, finding.evidence) == ("repair-silent", "its last check was at 2026-11-23 05:46:40 UTC")


def test_a_repairs_hold_is_not_reported_as_an_operators() -> None:
    hold = f'main {{"since": {NOW - 10}, "until": {NOW + 300}, "who": "this host\'s repair", "repair": 1}}'
    assert examined({"holds": hold}) == ()
