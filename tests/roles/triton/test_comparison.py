"""The verdict on an LLM that replaces another, by the rules by which the control machine judges an engine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.rollout import replay
from deploy.rollout.promotion import compared_lines
from deploy.slices.host import ReplaySlice
from host import comparison

LOAD = {"streams": 1, "requests": 2, "tokens_per_second": 9.0, "first_token_p50_ms": 1.0, "first_token_p95_ms": 1.0}
IDS = st.lists(st.integers(0, 3), max_size=8)


def limits(equal: float = 90.0, tasks: tuple[str, ...] = (), met: float = 0.0) -> dict[str, Any]:
    """Limits of a replay, with tasks by their expected answer."""
    expected = [{"prompt": "p", "expected": pattern} for pattern in tasks]
    return {"model": "llama", "equal_percent": equal, "minimum_percent": met, "tasks": expected, "gpus": 1}


def measured(*texts: str, ids: tuple[list[int], ...] = (), tasks: tuple[str, ...] = ()) -> dict[str, Any]:
    """A measurement with these answers to prompts and tasks."""
    numbers = ids or tuple([] for _ in texts)
    answers = [{"kind": "prompt", "text": text, "ids": row} for text, row in zip(texts, numbers, strict=True)]
    return {"answers": answers + [{"kind": "task", "text": text, "ids": []} for text in tasks], "load": LOAD}


@given(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=4), st.floats(0, 100))
def test_host_and_control_machine_judge_alike(pairs: list[tuple[list[int], list[int]]], wanted: float) -> None:
    texts = ["x"] * len(pairs)
    before, now = (measured(*texts, ids=tuple(pair[side] for pair in pairs)) for side in (0, 1))
    if all(row for pair in pairs for row in pair):
        answers = [[replay.Answer(str(number), tuple(pair[side])) for number, pair in enumerate(pairs)]
                   for side in (0, 1)]  # fmt: skip
        slice_ = ReplaySlice(prompts="p", answers="", max_tokens=8, equal_percent=wanted, tasks="", minimum_percent=0)
        judged, compared = replay.judge(*answers, [], slice_), comparison.verdict(limits(wanted), before, now)
        assert (compared["is_good"], compared["count"]) == (judged.is_good, judged.tokens)
        assert compared["equal_percent"] == round(judged.equal_percent, 1)


def test_programs_that_tell_no_ids_are_compared_by_words() -> None:
    before = measured("It is warm.", ids=([7, 8, 9],))
    compared = comparison.verdict(limits(), before, measured("It is cold."))
    assert (compared["unit"], compared["count"], compared["equal_percent"]) == ("words", 4, 75.0)
    assert compared["details"] == ["prompt 1: word 3 of 4 differs first"]


@given(st.text(max_size=40))
def test_words_are_all_of_the_text(text: str) -> None:
    assert "".join(comparison.WORDS.findall(text)) == text


@pytest.mark.parametrize(("met_wanted", "is_good"), [(50.0, True), (51.0, False)])
def test_tasks_below_their_share_refuse_it_however_equal_the_prompts_are(met_wanted: float, is_good: bool) -> None:
    tasks = ("^4$", "warm")
    compared = comparison.verdict(
        limits(tasks=tasks, met=met_wanted), measured("a", tasks=("4", "warm")), measured("a", tasks=("4", "cold"))
    )
    assert (compared["is_good"], compared["met"], compared["met_before"]) == (is_good, 1, 2)
    assert compared["details"] == ["task 2: not met"]


def test_no_answer_where_there_was_one_is_all_different() -> None:
    compared = comparison.verdict(limits(), measured("It is warm."), measured(""))
    assert (compared["equal_percent"], compared["is_good"]) == (0.0, False)


def test_the_host_and_the_operator_read_the_same_sentence() -> None:
    compared = comparison.verdict(limits(tasks=("a",)), measured("b", tasks=("a",)), measured("b", tasks=("a",)))
    assert compared_lines({"compared": compared})[0] == comparison.sentence(compared)


def test_no_prompt_and_no_answer_is_in_the_verdict() -> None:
    """Other users can read records with the verdict."""
    compared = comparison.verdict(limits(tasks=("z",)), measured("warm", tasks=("x",)), measured("cold", tasks=("y",)))
    assert not [word for word in ("warm", "cold", "'x'", "'y'", "'p'") if word in str(compared)]
