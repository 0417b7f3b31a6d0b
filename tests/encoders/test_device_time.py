"""The device time of passes, computed from their events, never exceeds the elapsed time."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from encoders.device import DeviceTime


@dataclass(frozen=True)
class Event:
    """An event of CUDA's that has happened, in milliseconds."""

    at: float

    def elapsed_time(self, later: "Event") -> float:
        """Returns milliseconds until `later`, negative if it came before."""
        return later.at - self.at


INTERVALS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 30)).map(lambda span: (span[0], sum(span))), max_size=12
)


def counted(intervals: list[tuple[int, int]]) -> int:
    time = DeviceTime()
    for began, ended in intervals:
        time.add(Event(began), Event(ended))
    return round(time.seconds * 1000)


def covered(intervals: list[tuple[int, int]]) -> int:
    return len({tick for began, ended in intervals for tick in range(began, ended)})


@given(INTERVALS)
def test_overlapping_passes_are_not_counted_twice(intervals: list[tuple[int, int]]) -> None:
    assert counted(intervals) <= covered(intervals)


@given(INTERVALS)
def test_passes_in_order_of_their_beginnings_are_counted_in_full(intervals: list[tuple[int, int]]) -> None:
    assert counted(sorted(intervals)) == covered(intervals)
