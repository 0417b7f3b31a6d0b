"""Ten power cuts while weights are published, and while a release is published and swapped in.

Both run concurrently on one machine, so that one cut hits both, each at a random (seeded) moment of its uninterrupted
duration. Unsynced writes are lost: QEMU's process is killed, and the disk keeps what was flushed. tests/power/work.py
lists the real parts; rehearsal/reader the stand-ins for Triton.
"""

from __future__ import annotations

import pytest

from tests.power.ground import CUTS, Cut, Ground, Words

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-8")]


@pytest.fixture(scope="module", params=range(1, CUTS + 1), ids=lambda ordinal: f"cut-{ordinal}")
def cut(ground: Ground, request: pytest.FixtureRequest) -> Cut:
    """Returns one power cut of the ten."""
    cut = ground.cut(request.param)
    ground.log_cut(cut)
    return cut


def test_a_publish_and_a_swap_without_a_power_cut_complete(ground: Ground) -> None:
    """Preparing the machine has its own test: with the first cut, it took longer than the limit of one test."""
    seen = ground.words(ground.look(), 1)
    assert (seen.serves, seen.published) == ("new active", {"new whole"})


def test_a_publish_that_was_cut_left_nothing_or_all_of_it(cut: Cut) -> None:
    assert cut.after.published in ({"old whole"}, {"old whole", "new whole"})


def test_the_same_publish_again_completes(cut: Cut) -> None:
    assert cut.end.published == {"old whole", "new whole"}


def test_after_the_boot_a_whole_release_serves_and_nothing_half_was_started(cut: Cut) -> None:
    assert cut.after in (
        Words("old active", {"old whole"}, cut.after.published),
        Words("new active", {"new whole"}, cut.after.published),
    ), cut.journal


def test_the_same_swap_again_converges_from_whole_files(cut: Cut) -> None:
    assert (cut.end.serves, cut.end.started - {"old whole"}) == ("new active", {"new whole"})
