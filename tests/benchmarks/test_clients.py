"""Rules for the parts of a request that count in a window."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.clients import share

moments = st.floats(0, 100, allow_nan=False)


@pytest.mark.parametrize(
    ("sent", "ended", "counted"), [(2, 4, 1.0), (0, 2, 0.5), (3, 7, 0.5), (0, 10, 0.4), (0, 1, 0.0), (5, 6, 0.0)]
)
def test_a_request_counts_by_the_share_of_its_time_inside_the_window(sent: float, ended: float, counted: float) -> None:
    assert share(sent, ended, 1, 5) == pytest.approx(counted)


@given(st.lists(moments, min_size=4, max_size=4, unique=True))
def test_windows_side_by_side_count_every_request_once(times: list[float]) -> None:
    sent, ended = sorted(times[:2])
    first, second = sorted(times[2:])
    edges = [-1.0, first, second, 101.0]
    counted = sum(share(sent, ended, *window) for window in pairwise(edges))
    assert counted == pytest.approx(1.0)
