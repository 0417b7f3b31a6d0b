"""The `try` line of a refusal, when typed, leads neither to the same refusal nor to a consequence that it omitted.

The inventories are those of the tables tests.unit.wrong*, edited as `tests.unit.hints` reads their `try` lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.hints import followed, pieces_of, ways_out
from tests.unit.samples import Source, refusals, sources
from tests.unit.test_operators import CASES as OPERATORS
from tests.unit.test_refusals import ALL, CASES
from tests.unit.wrong import Wrong

PINNED_NEXT = {"unpinned-model"}
"""A name of a hub is locked by `enginehouse pin` before it is planned: README's walk, and the next refusal's hint."""

NEXT: dict[str, tuple[set[str], str]] = {
    "a MIG slice is not a card": ({"over-committed"}, "the models of the case are larger than that slice"),
    "weights have a source": ({"no-local-weights"}, "the directory of the hint is not there in a test"),
    "24.12 converts nothing": ({"no-local-weights"}, "so is this one"),
    "options of an engine want an engine": ({"beams-while-streaming"}, "the case has this mistake too"),
    "two pools have two ports": ({"route-without-hosts"}, "the case has no hosts for two pools"),
    "GLM is no Llama when its files are known": ({"over-committed"}, "the real GLM does not fit the card of the case"),
    "an image is of the release that it is derived from": (
        {"release-too-old-for-model"},
        "the case's image is of 25.04 by its tag, and its model is newer",
    ),
}
"""Refusals that may come next although the hint is right, by the promise of the case, and why."""


def verdicts(promise: str, wrong: Wrong) -> list[tuple[str, set[tuple[str, str]]]]:
    """Each typed alternative, with the refusals that remain or appear; of several readings, the one with the fewest
    refusals."""
    hosts = [*sources(**wrong.data), *wrong.beside]
    before = wrong.refused()
    places = {(problem.kind, problem.facts["where"]) for problem in before}
    left = []
    for problem in before:
        own = (problem.kind, problem.facts["where"])
        for way in ways_out(problem.attempt):
            readings = []
            for inventory in followed(way, problem, hosts):
                now = refusals(*inventory, around=wrong.around)
                after = {(problem.kind, problem.facts["where"]) for problem in now}
                readings.append((after - places) | ({own} & after))
            if readings:
                left.append((way, min(readings, key=len)))
    return left


@CASES
def test_a_hint_is_accepted_when_it_is_typed(promise: str, wrong: Wrong) -> None:
    """After a typed alternative the same refusal does not return, and no refusal appears that the hint could have
    named."""
    known = NEXT.get(promise, (set(), ""))[0] | PINNED_NEXT
    assert [(way, left) for way, left in verdicts(promise, wrong) if {kind for kind, _ in left} - known] == []


def test_every_listed_exception_is_still_needed() -> None:
    """A hint that works is removed from the list."""
    for promise, (kinds, _) in NEXT.items():
        assert {kind for _, left in verdicts(promise, ALL[promise]) for kind, _ in left} & kinds, promise


def test_most_hints_are_code() -> None:
    """The test can parse hints of code: more than half of the alternatives are typed."""
    offers = [way for wrong in ALL.values() for problem in wrong.refused() for way in ways_out(problem.attempt)]
    assert sum(bool(pieces_of(way)) for way in offers) >= 0.6 * len(offers)


@pytest.mark.parametrize(
    ("hint", "count"),
    [
        ('leave precision out; or KVCache(dtype="a; or b"), or reuse=True', 3),
        ("http_port=8080", 1),
        ('address="127.0.0.1" or "firewall": Firewall(allow=("10.0.0.0/8",)) and another', 2),
    ],
)
def test_ways_out_are_split_outside_of_quotes(hint: str, count: int) -> None:
    """A separator inside a text is part of the text."""
    assert len(ways_out(hint)) == count


STAYS = {"r19", "r42", "k08", "l18"}
"""Mistakes whose hint, typed alone, is only a part of the remedy."""


def test_no_hint_for_a_typed_mistake_leads_back_to_the_same_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inventories are those of test_operators; a hint that names another key is not tried, as the old one stays."""
    monkeypatch.chdir(tmp_path)
    returned = []
    for name, _mistake, answer, text in OPERATORS:
        if answer.startswith("planned") or name.split("_")[0] in STAYS or not (hosts := hosts_of(text)):
            continue
        for problem in refusals(*hosts):
            own = (problem.kind, problem.facts["where"])
            for way in ways_out(problem.attempt) if problem.kind != "unknown-key" else ():
                try:
                    now = [refusals(*inventory) for inventory in followed(way, problem, hosts)]
                except (AttributeError, TypeError):  # the place is inside a value that is no object
                    continue
                if now and all(own in {(after.kind, after.facts["where"]) for after in left} for left in now):
                    returned.append((name, way))
    assert returned == []


def hosts_of(text: str) -> list[Source]:
    """The hosts of an inventory's groups; none for a text that Python or pyinfra does not read."""
    variables: dict[str, Any] = {}
    try:
        exec(text, variables)  # an inventory of this repository's tests
        groups = [value for name, value in variables.items() if isinstance(value, tuple) and not name.startswith("_")]
        pairs = [(host, data) for hosts, data in groups for host in hosts]
        named = [(*host, data) if isinstance(host, tuple) else (host, {}, data) for host, data in pairs]
        return [Source(name, {**data, **own}) for name, own, data in named if isinstance(name, str) and name]
    except BaseException:  # such a file is refused before its hosts are read
        return []
