"""The doctor's findings on notices of interruption, from the host's metrics."""

from __future__ import annotations

from deploy.doctor.finding import Finding
from host.notices.main import metrics
from tests.unit.doctored import NOW, examined


def seen(*standing: str, is_active: bool = False, answered: float = NOW - 10.0, cut: int = 0) -> tuple[Finding, ...]:
    """The findings of a host whose program reports this state."""
    active = {"ends": NOW + 90.0} if is_active else None
    record = {"active": active, "totals": {}, "cut": cut, "standing": list(standing), "answered": answered}
    return examined({"notices": "\n".join(line for line in metrics(record).splitlines() if line[0] != "#")})


def test_a_cloud_that_announces_nothing_is_no_finding() -> None:
    assert seen() == ()


def test_a_reclaimed_host_is_named_with_time_and_interrupted_requests() -> None:
    (finding,) = seen("spot terminate", is_active=True, cut=3)
    evidence = "spot terminate: the cloud takes the host at 2026-11-23 08:01:30 UTC; requests cut: 3"
    assert (finding.id, finding.severity, finding.evidence) == ("notice-drains", "warning", evidence)


def test_a_notice_without_a_drain_is_a_note() -> None:
    assert [(finding.id, finding.evidence) for finding in seen("rebalance")] == [("notice-seen", "rebalance")]


def test_a_cloud_that_does_not_answer_is_named() -> None:
    assert [finding.evidence for finding in seen(answered=0.0)] == ["it has never answered"]
    (late,) = seen(answered=NOW - 600.0)
    assert (late.id, late.evidence) == ("notices-unread", "its last answer was at 2026-11-23 07:50:00 UTC")


def test_a_clouds_hold_is_not_reported_as_an_operators() -> None:
    hold = f'main {{"since": {NOW - 10}, "until": {NOW + 300}, "who": "the cloud: preemption", "cloud": 1}}'
    assert examined({"holds": hold}) == ()
