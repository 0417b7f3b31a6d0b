"""The verdict over all hosts: its exit code, its text with equal findings shown once, its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from deploy.doctor.catalogue import KINDS, finding_of
from deploy.doctor.report import Report

RESET = finding_of("recovery-reset", "GPU Recovery Action: Reset", "GPU 0", gpu=0)
DRIFT = finding_of("drift", "1 steps: Docker | Merge")
NOTE = finding_of("run-at-work", "ada@desk since today")


@pytest.mark.parametrize(
    ("report", "code", "verdict"),
    [
        (Report({"a": ()}), 0, "healthy"),
        (Report({"a": (NOTE,)}), 0, "healthy"),
        (Report({"a": (), "b": (DRIFT, NOTE)}), 3, "warnings"),
        (Report({"a": (DRIFT,), "b": (RESET,)}), 2, "broken"),
        (Report({"a": (RESET,)}, {"b": "Could not connect"}), 1, "could not ask"),
        (Report({}, {"b": "Could not connect"}), 1, "could not ask"),
        (Report(stopped="no such machine"), 1, "could not ask"),
        (Report(), 1, "could not ask"),
    ],
)
def test_the_exit_code_says_the_verdict(report: Report, code: int, verdict: str) -> None:
    assert (report.exit_code, report.verdict, report.to_json()["exit_code"]) == (code, verdict, code)


def test_forty_hosts_with_one_fault_are_reported_once() -> None:
    fleet = {f"h{number:02}": (RESET,) for number in range(40)} | {"well": ()}
    assert str(Report(fleet)).splitlines() == [
        "broken  recovery-reset  GPU 0  on h00, h01, h02, h03, h04, h05, h06, h07 and 32 more",
        "  seen   GPU Recovery Action: Reset",
        "  means  the driver requests a reset of the GPU",
        f"  try    {RESET.attempt}",
        "  ours   no",
        "",
        "nothing found: well",
        "verdict: broken, 41 of 41 hosts asked",
    ]


def test_evidence_that_differs_by_host_does_not_part_the_group() -> None:
    fleet = {f"h{number}": (finding_of("disk-low", f"/: {95 + number} % used", "/", what="/"),) for number in range(4)}
    text = str(Report(fleet))
    assert (text.count("disk-low"), text.count("% used")) == (1, 3)
    assert "1 further lines; --json has them" in text
    assert "/: 98 % used" in Report(fleet).to_text()


def test_the_worst_comes_first() -> None:
    report = Report({"a": (NOTE, DRIFT), "b": (RESET,)})
    assert [finding.severity for finding, _ in report.groups()] == ["broken", "warning", "note"]


def test_unreachable_hosts_are_named_with_the_reason() -> None:
    assert str(Report({"a": ()}, {"b": "Could not connect", "c": "Could not connect"})).splitlines() == [
        "could not be asked: b, c (Could not connect)",
        "nothing found: a",
        "verdict: could not ask, 1 of 3 hosts asked",
    ]


def test_the_json_has_every_finding_of_every_host() -> None:
    report = json.loads(Report({"a": (RESET,), "b": ()}, {"c": "away"}).to_text())
    expected: Mapping[str, object] = {
        "id": "recovery-reset",
        "severity": "broken",
        "subject": "GPU 0",
        "evidence": "GPU Recovery Action: Reset",
        "means": KINDS["recovery-reset"].means,
        "try": RESET.attempt,
        "ours": False,
    }
    assert report == {
        "verdict": "could not ask",
        "exit_code": 1,
        "hosts": {"a": [expected], "b": []},
        "not_asked": {"c": "away"},
        "stopped": "",
        "archive": "",
    }
