"""Moments at which a control process is killed, spread over a run in a form that is valid for another run."""

from __future__ import annotations

from tests.kills.moments import BEFORE, Moment, Timeline, drawn

TIMELINE = Timeline([(BEFORE, 0.0), ("Base | Install tools", 10.0), ("Triton | Swap", 60.0)], ended=100.0)


def test_every_part_of_the_run_has_one_moment() -> None:
    assert [int(fraction * 15) for fraction in drawn(seed=1, count=15)] == list(range(15))


def test_the_moments_are_the_same_in_every_run() -> None:
    assert drawn(seed=1, count=3) == [0.0448, 0.6158, 0.9213]


def test_a_moment_names_the_operation_in_progress_and_how_long_it_had_been() -> None:
    assert TIMELINE.moment(0.25) == Moment(1, "Base | Install tools", 15.0)


def test_a_moment_before_the_first_operation_is_one_too() -> None:
    assert str(TIMELINE.moment(0.05)) == "5.00 s into operation 0, before the first operation"


def test_the_end_of_a_run_is_in_its_last_operation() -> None:
    assert TIMELINE.moment(1.0) == Moment(2, "Triton | Swap", 40.0)


def test_a_timeline_is_read_from_a_runs_output() -> None:
    heard = Timeline()
    for line in ("--> Loading config...\n", "--> Starting operation: Base | Make directories \n", "--> Results:\n"):
        heard.heard(line)
    assert [label for label, _ in heard.began] == [BEFORE, "Base | Make directories"]
    assert heard.ended >= heard.began[1][1]
