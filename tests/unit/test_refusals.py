"""Every wrong inventory of the tables tests.unit.wrong* is refused before any change: messages are compared whole."""

from __future__ import annotations

import re

import pytest

from tests.unit import (
    wrong,
    wrong_balancers,
    wrong_believed,
    wrong_gateway,
    wrong_https,
    wrong_llm,
    wrong_monitors,
    wrong_names,
    wrong_numbers,
    wrong_proxies,
    wrong_runtimes,
    wrong_sharing,
)
from tests.unit.golden import DIRECTORY, same_as_golden
from tests.unit.wrong import Wrong

ALL = {
    **wrong.ALL,
    **wrong_llm.ALL,
    **wrong_believed.ALL,
    **wrong_balancers.ALL,
    **wrong_gateway.ALL,
    **wrong_https.ALL,
    **wrong_sharing.ALL,
    **wrong_monitors.ALL,
    **wrong_runtimes.ALL,
    **wrong_names.ALL,
    **wrong_numbers.ALL,
    **wrong_proxies.ALL,
}

CASES = pytest.mark.parametrize(("promise", "wrong"), ALL.items(), ids=[name.replace(" ", "_") for name in ALL])


@CASES
def test_the_inventory_is_refused_for_this_reason_at_this_place(promise: str, wrong: Wrong) -> None:
    """Reason and place are fields, so that programs need not parse text."""
    problems = {
        (problem.kind, re.sub("^(h100-0[12]|edge|eyes): ", "", problem.facts["where"])) for problem in wrong.refused()
    }
    assert (wrong.kind, wrong.where) in problems


@CASES
def test_the_whole_message(promise: str, wrong: Wrong) -> None:
    """The printed report, with every problem of that inventory; the files are read in review."""
    text = "\n\n".join(str(problem) for problem in wrong.refused()) + "\n"
    same_as_golden(f"refusals/{re.sub('[^a-z0-9]+', '-', promise.lower()).strip('-')}.txt", text)


@CASES
def test_a_refusal_names_place_seen_wanted_and_a_remedy(promise: str, wrong: Wrong) -> None:
    """Every problem has all four parts."""
    assert all({"where", "seen", "wanted"} <= problem.facts.keys() and problem.attempt for problem in wrong.refused())


def test_no_message_is_kept_for_a_case_that_is_gone() -> None:
    """Every promise has exactly one file."""
    assert len(list((DIRECTORY / "refusals").iterdir())) == len(ALL)


def test_at_least_a_hundred_refusals_are_tested() -> None:
    """The issue asks for thirty."""
    assert len(ALL) >= 100


def test_no_message_has_an_empty_word_or_a_secret() -> None:
    texts = [str(problem) for wrong in ALL.values() for problem in wrong.refused()]
    words = ("invalid", "failed to", "Traceback", "hf_abcdef", wrong_believed.SECRET)
    assert not [text for text in texts if any(word in text for word in words)]
