"""MIG profiles by card: the instances into which a GPU can be cut, their places, and their MiB.

A profile `3g.40gb` is three of seven compute slices and, by its name, 40 GB; it occupies memory slices, of which a card
has eight. The places where an instance may start are fixed by the hardware and equal on every card here (`nvidia-smi
mig -lgipp` on an H100 and an H200, driver 580.159.04, 2026-11-21; the guide prints the same for an A100), so a
combination fits if each instance finds a place.

MiB are NVML's numbers for the profile. nvidia-smi shows the same or a little more once the instance exists (20,096
and 20,224 where A100 40GB lists 19.50 GiB, in the guide), but on a whole H100 80GB the 81,152 of `7g.80gb` are more
than the 81,079 CUDA hands out, so an instance is planned with RESERVED_MIB less.
Guide: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/, "Supported MIG Profiles", "Getting Started with MIG",
read 2026-11-21. Profiles with graphics, and of RTX cards, are left out. The names of a B300 are those of Amazon's
configurations for its p6-b300, read 2026-11-28.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

COMPUTE_SLICES = 7
RESERVED_MIB = 256
"""MiB that each instance loses, not measured here: a third more than the loss of the whole H100 (81,152 listed, 81,079
usable)."""

MEASURED = "nvmlDeviceGetGpuInstanceProfileInfoV, driver 580.159.04, 2026-11-21"
LISTED = "profile: MIG user guide; MiB: `nvidia-smi mig -lgip` in public reports, the smallest seen"
ESTIMATED = "profile: MIG user guide; MiB: the shares of an H200's profiles, rounded down; not read from a card"


@dataclass(frozen=True)
class MigProfile:
    """A way to cut an instance. `starts` are the memory slices where it may begin, `most` its maximum per card."""

    name: str
    profile_id: int
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    most: int
    total_mib: int
    reserved_mib: int = RESERVED_MIB
    source: str = LISTED

    @property
    def usable_mib(self) -> int:
        return self.total_mib - self.reserved_mib


_SHAPES = (
    (0, 7, 8, (0,), 1, ""),
    (5, 4, 4, (0,), 1, ""),
    (9, 3, 4, (0, 4), 2, ""),
    (14, 2, 2, (0, 2, 4), 3, ""),
    (15, 1, 2, (0, 2, 4, 6), 4, ""),
    (19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, ""),
    (20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, "+me"),
)
"""Profile id, compute slices, memory slices, starts, most, and the end of the name; alike on every card."""

_H100 = ((80, 81_152), (40, 40_448), (20, 20_096), (10, 9_984))
_H200 = ((141, 143_360), (71, 71_424), (35, 33_280), (18, 16_384))
_A100_80 = ((80, 80_896), (40, 40_192), (20, 19_968), (10, 9_728))
_A100_40 = ((40, 40_192), (20, 19_968), (10, 9_850), (5, 4_864))
_CARDS = (
    ("h100-80", MEASURED, _H100),
    ("h100-pcie-80", LISTED, _H100),
    ("h100-nvl-94", LISTED, ((94, 94_842), (47, 47_226), (24, 22_016), (12, 10_874))),
    ("h200-141", MEASURED, _H200),
    ("h200-nvl-141", LISTED, _H200),
    ("a100-80", LISTED, _A100_80),
    ("a100-pcie-80", LISTED, _A100_80),
    ("a100-40", LISTED, _A100_40),
    ("a100-pcie-40", LISTED, _A100_40),
    ("b200-180", ESTIMATED, ((180, 181_000), (90, 89_000), (45, 42_000), (23, 20_500))),
    ("b300-270", ESTIMATED, ((269, 271_000), (135, 133_000), (67, 63_000), (34, 30_500))),
)
"""Card, source, and the size of an instance with eight, four, two memory slices and one: GB in its name, and MiB."""


def _profiles(source: str, sizes: Iterable[tuple[int, int]]) -> Iterator[MigProfile]:
    """The profiles of one card, largest first."""
    by_slices = dict(zip((8, 4, 2, 1), sizes, strict=True))
    for number, compute, memory, starts, most, end in _SHAPES:
        gb, mib = by_slices[memory]
        name = f"{compute}g.{gb}gb{end}"
        yield MigProfile(name, number, compute, memory, starts, most, mib, source=source)


PROFILES = {(gpu, row.name): row for gpu, source, sizes in _CARDS for row in _profiles(source, sizes)}
"""Profiles by card (a name of catalog.GPUS) and name, the largest of each card first."""


def profiles_of(gpu: str) -> tuple[MigProfile, ...]:
    return tuple(row for (card, _), row in PROFILES.items() if card == gpu)


def places(profiles: Sequence[MigProfile]) -> tuple[int, ...] | None:
    """The memory slice at which each profile starts, in the given order; None if one card cannot hold them all.

    Larger profiles get their places first, and move again if the smaller profiles then find no place.
    """
    if sum(profile.compute_slices for profile in profiles) > COMPUTE_SLICES or _too_many(profiles):
        return None
    order = sorted(range(len(profiles)), key=lambda index: rank(profiles[index]))
    starts = _placed([profiles[index] for index in order], frozenset())
    return tuple(starts[order.index(index)] for index in range(len(profiles))) if starts is not None else None


def rank(profile: MigProfile) -> tuple[int, int]:
    """A sort key in the order in which the driver numbers a card's instances: larger memory first, then more compute.

    Seen: a 4g is instance 1 and a 3g beside it 2, 2g are 3 to 6, 1g 7 to 13 (MIG user guide, "Instance Geometry"). MIG
    devices, and so CDI names, are numbered in the same order.
    """
    return -profile.memory_slices, -profile.compute_slices


def _too_many(profiles: Iterable[MigProfile]) -> bool:
    names = [profile.name for profile in profiles]
    return any(names.count(profile.name) > profile.most for profile in profiles)


def _placed(left: Sequence[MigProfile], taken: frozenset[int]) -> tuple[int, ...] | None:
    """Starts of the profiles `left`, in their order, in the remaining slices; the first combination that fits."""
    if not left:
        return ()
    first, rest = left[0], left[1:]
    for start in first.starts:
        slices = frozenset(range(start, start + first.memory_slices))
        if not slices & taken:
            others = _placed(rest, taken | slices)
            if others is not None:
                return (start, *others)
    return None
