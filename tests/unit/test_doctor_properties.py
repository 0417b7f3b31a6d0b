"""The doctor raises for no output of a host, and never calls unread output healthy."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.doctor.examine import findings_of
from deploy.doctor.finding import LONGEST
from deploy.doctor.readings import CUT, LATE, MOST_CHARACTERS, Readings
from deploy.doctor.report import Report
from tests.unit.doctored import HEALTHY, WANTED, read
from tests.unit.test_doctor import FIRES

NAMES = sorted(HEALTHY)
GARBAGE = st.text(max_size=120) | st.sampled_from([text for change in FIRES.values() for text in change.values()])
ENDS = st.sampled_from(["0", "1", "6", "9", "15", "18", "124", "127", "137", "255", LATE, CUT, "", "²", "zero"])
ROWS = st.lists(st.text('0123456789ABCDEFabcdef:./-%= {}[]",nulltrue\n', max_size=40), max_size=6).map("\n".join)
FEW = settings(max_examples=60, deadline=None)


@FEW
@given(
    st.dictionaries(st.sampled_from(NAMES), GARBAGE | ROWS, max_size=8), st.dictionaries(st.sampled_from(NAMES), ENDS)
)
def test_no_answer_makes_it_raise(texts: dict[str, str], ends: dict[str, str]) -> None:
    """Each finding can be printed, on one line, and converted to JSON."""
    readings = Readings.parse(
        [
            *(f"{name}|{line}" for name, text in {**HEALTHY, **texts}.items() for line in text.split("\n")),
            *(f"{name}#{ends.get(name, '0')}" for name in NAMES),
        ]
    )
    report = Report({"h1": findings_of(readings, WANTED)})
    assert json.loads(report.to_text())["verdict"] in ("healthy", "broken", "warnings")
    for finding in report.findings["h1"]:
        assert len(finding.evidence) <= LONGEST and finding.evidence.isprintable() and finding.attempt.isprintable()


@pytest.mark.parametrize(
    "piece", ["NVRM: ", "NVRM: Xid (", "NVRM: Xid (1:1:1", "0", "9.", " ", '{"a":', "PCI:0000:00:0"]
)
@pytest.mark.parametrize("name", ["kernel", "loaded", "packages", "servers"])
def test_a_line_of_any_length_is_read_once(name: str, piece: str) -> None:
    """A search from every position of a line of one megabyte would take an hour; longer answers than a host sends
    are cut."""
    readings = read({**HEALTHY, name: piece * (1_000_000 // len(piece))})
    assert readings.ended[name] == CUT and readings.text(name) == ""
    assert "unread" in {finding.id for finding in findings_of(readings, WANTED)}
    longest = read({**HEALTHY, name: piece * (MOST_CHARACTERS // len(piece))})
    assert Report({"h1": findings_of(longest, WANTED)}).to_text()


@FEW
@given(st.lists(st.text(max_size=60)))
def test_no_line_makes_it_raise(lines: list[str]) -> None:
    """Invalid lines leave questions unanswered, which is reported."""
    findings = findings_of(Readings.parse(lines).expecting(NAMES), WANTED)
    assert "unread" in {finding.id for finding in findings}


@FEW
@given(st.sampled_from(NAMES), st.data())
def test_an_answer_that_breaks_off_is_never_healthy(name: str, data: st.DataObject) -> None:
    """An answer may break off at any byte: its end mark is then missing."""
    whole = HEALTHY[name]
    text = whole[: data.draw(st.integers(0, len(whole)))]
    readings = read({**HEALTHY, name: text}, **{name.replace("-", "_"): CUT})
    assert Report({"h1": findings_of(readings, WANTED)}).exit_code in (2, 3)


@FEW
@given(st.integers(0, 10**9), st.text(max_size=40), st.booleans(), st.integers(1, 8))
def test_every_xid_of_this_boot_is_reported(number: int, words: str, with_pci: bool, gpus: int) -> None:
    """Known and unknown numbers are reported; 154 has a separate finding."""
    place = f"{'PCI:' if with_pci else ''}0000:00:06"
    line = f"1795420000.1 h1 kernel: NVRM: Xid ({place}): {number}, {''.join(words.splitlines())}"
    wanted = replace(WANTED, gpus=gpus)
    findings = findings_of(read({**HEALTHY, "kernel": line}), wanted)
    assert [finding for finding in findings if finding.id.startswith(("xid-", "off-", "recovery-"))] != []
