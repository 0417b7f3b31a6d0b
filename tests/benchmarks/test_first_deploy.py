"""Figures of a first deploy from journals and a run's stages, without a machine."""

from benchmarks.first_deploy import span, summary


def test_a_stage_lasts_from_its_first_word_to_its_last() -> None:
    lines = [
        "-- Boot 1 --",
        "1700000000.500000 h1 systemd[1]: Starting …",
        "1700000042.750000 h1 systemd[1]: Finished …",
    ]
    assert (span(lines), span([])) == (42.25, 0.0)


def test_the_ratio_is_that_of_the_longest_stage_of_any_machine() -> None:
    spans = [{"pull": 40.0, "weights": 5.0, "load": 10.0}, {"pull": 50.0, "weights": 4.0, "load": 12.0}]
    figures = summary(2, 100.0, 104.0, {"Driver": 28.0, "Registry": 44.0}, spans)
    assert (figures["ratio"], figures["longest_stage"]) == (2.0, "pull")
    assert figures["stages"] == {"pull": 50.0, "weights": 5.0, "load": 12.0, "driver": 28.0}
    assert list(figures["run"]) == ["Registry", "Driver"]
