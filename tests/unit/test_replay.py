"""The judge of a new engine's answers: the first difference, the equal share, and the operator's message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.rollout.replay import Answer, Compared, answers, judge, regression, tasks
from deploy.slices.host import ReplaySlice

LIMITS = ReplaySlice(prompts="p", answers="a", max_tokens=8, equal_percent=90.0, tasks="", minimum_percent=0.0)
TASKED = ReplaySlice(prompts="p", answers="a", max_tokens=8, equal_percent=0.0, tasks="t", minimum_percent=60.0)
TOKENS = st.lists(st.integers(0, 9), max_size=20).map(tuple)


def compared(wanted: tuple[int, ...], answered: tuple[int, ...]) -> Compared:
    """Two answers to one prompt."""
    return Compared(Answer("prompt", wanted), Answer("prompt", answered))


@pytest.mark.parametrize(
    ("wanted", "answered", "first", "equal"),
    [
        ((1, 2, 3), (1, 2, 3), None, 3),
        ((1, 2, 3), (1, 9, 3), 1, 2),
        ((1, 2, 3), (1, 2), 2, 2),
        ((1, 2), (1, 2, 3), 2, 2),
        ((1, 2), (), 0, 0),
        ((), (), None, 0),
    ],
)
def test_two_answers_part_at_their_first_different_token(
    wanted: tuple[int, ...], answered: tuple[int, ...], first: int | None, equal: int
) -> None:
    comparison = compared(wanted, answered)
    assert (comparison.first_difference, comparison.equal) == (first, equal)


@given(TOKENS, TOKENS)
def test_answers_part_nowhere_exactly_when_they_are_the_same(
    wanted: tuple[int, ...], answered: tuple[int, ...]
) -> None:
    assert (compared(wanted, answered).first_difference is None) == (wanted == answered)


@given(TOKENS)
def test_an_engine_that_answers_the_same_is_good(tokens: tuple[int, ...]) -> None:
    same = [Answer("prompt", tokens)]
    assert judge(same, same, [], LIMITS).is_good


def test_the_share_of_equal_tokens_is_counted_over_all_prompts() -> None:
    wanted = [Answer("one", (1, 2, 3)), Answer("two", (4,))]
    verdict = judge(wanted, [Answer("one", (1, 2, 3)), Answer("two", (5,))], [], LIMITS)
    assert (verdict.equal_percent, verdict.is_good) == (75.0, False)


def test_a_prompt_that_was_not_answered_is_answered_wrongly() -> None:
    verdict = judge([Answer("one", (1,)), Answer("two", (2,))], [Answer("one", (1,))], [], LIMITS)
    assert verdict.equal_percent == 50.0


def test_a_task_is_met_by_a_match_anywhere_in_its_answer() -> None:
    answers = [Answer("capital?", (1,), "It is Paris.", "task"), Answer("sum?", (2,), "five", "task")]
    verdict = judge([], answers, [("capital?", "Paris"), ("sum?", "^4$")], TASKED)
    assert (verdict.met_percent, verdict.is_good) == (50.0, False)


def test_a_task_and_a_prompt_of_the_same_text_are_kept_apart() -> None:
    answers = [Answer("same", (1,), "as prompt"), Answer("same", (2,), "as task", "task")]
    verdict = judge([Answer("same", (1,))], answers, [("same", "task")], TASKED)
    assert (verdict.equal_percent, verdict.met_percent) == (100.0, 100.0)


def test_answers_are_read_from_json_lines() -> None:
    text = '{"prompt": "one", "tokens": [1, 2], "text": "a"}\n\n{"kind": "task", "prompt": "two", "tokens": []}\n'
    assert answers(text) == [Answer("one", (1, 2), "a"), Answer("two", (), "", "task")]


def test_a_task_with_an_invalid_pattern_is_an_error() -> None:
    with pytest.raises(Exception, match="unterminated"):
        tasks('{"prompt": "one", "expected": "[a"}')


def test_a_regression_is_shown_as_a_diff_of_the_prompts_that_part_first() -> None:
    wanted = [Answer("The capital of France is", (5, 6, 7, 8, 9, 1), "Paris, a city"), Answer("two", (1, 1))]
    answers = [Answer("The capital of France is", (5, 6, 7, 8, 0, 0), "Paris, aaaa"), Answer("two", (2, 1))]
    assert str(regression("engine llama (3f9c)", judge(wanted, answers, [], LIMITS))) == (
        "engine llama (3f9c) does not answer as it should\n"
        "  found     62.5 % of 8 tokens equal (90.0 % wanted)\n"
        '  prompt 1  "two": token 1 of 2 differs first; 1 equal\n'
        "  wanted 1  [1 1]\n"
        "  given 1   [2 1]\n"
        '  prompt 2  "The capital of France is": token 5 of 6 differs first; 4 equal\n'
        '  wanted 2  … 6 7 8 [9 1]   "Paris, a city"\n'
        '  given 2   … 6 7 8 [0 0]   "Paris, aaaa"\n'
        "  try       another precision or calibration; or, if these answers are as good, new stored answers or a lower "
        "Replay.equal_percent\n"
        "  state     the engine is built and not signed, so no server loads it; running servers are not affected"
    )


def test_a_missed_task_is_shown_with_the_expected_and_the_actual_answer() -> None:
    verdict = judge([], [Answer("2+2?", (1,), "five", "task")], [("2+2?", "^4$")], TASKED)
    message = str(regression("engine llama (3f9c)", verdict))
    assert "0 of 1 tasks met (60.0 % wanted)" in message
    assert '  task 1     "2+2?"\n  expects 1  ^4$\n  answer 1   "five"\n' in message
