"""MIG profiles by card: the instances into which a GPU can be cut, their places, and their MiB.

A profile `3g.40gb` is three of seven compute slices and, by its name, 40 GB; it occupies memory slices, of which a card
has eight. The places where an instance may start are fixed by the hardware and equal on every card here (`nvidia-smi
mig -lgipp` on an H100 and an H200, driver 580.159.04, 2026-11-21; the guide prints the same for an A100), so a
combination fits if each instance finds a place.

MiB are NVML's numbers for the profile. nvidia-smi shows the same or a little more once the instance exists (20,096
and 20,224 where A100 40GB lists 19.50 GiB, in the guide), but on a whole H100 80GB the 81,152 of `7g.80gb` are more
than the 81,079 CUDA hands out, so an instance is planned with RESERVED_MIB less.
Guide: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/, "Supported MIG Profiles", "Getting Started with MIG",
read 2026-11-21. Profiles with graphics, and of B300 and RTX cards, are left out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

COMPUTE_SLICES = 7
RESERVED_MIB = 256
"""MiB that each instance loses, not measured here: a third more than the loss of the whole H100 (81,152 listed, 81,079
usable)."""

MEASURED = "nvmlDeviceGetGpuInstanceProfileInfoV, driver 580.159.04, 2026-11-21"
LISTED = "profile: MIG user guide; MiB: `nvidia-smi mig -lgip` in public reports, the smallest seen"
ESTIMATED = "profile: MIG user guide; MiB: the shares of an H200's profiles, rounded down; not read from a card"


@dataclass(frozen=True, kw_only=True)
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


# Profile id, compute slices, memory slices, starts, most; NVML numbers them alike on every card.
_SHAPES: dict[str, tuple[int, int, int, tuple[int, ...], int]] = {
    "7g": (0, 7, 8, (0,), 1),
    "4g": (5, 4, 4, (0,), 1),
    "3g": (9, 3, 4, (0, 4), 2),
    "2g": (14, 2, 2, (0, 2, 4), 3),
    "1g double": (15, 1, 2, (0, 2, 4, 6), 4),
    "1g": (19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7),
    "1g+me": (20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1),
}


def _card(gpu: str, source: str, **named: tuple[str, int]) -> dict[tuple[str, str], MigProfile]:
    """The rows of one card, largest first; keywords are shapes, with `double` and `media` for the two special ones."""
    shapes = {"double": "1g double", "media": "1g+me", **{f"slices_{n}": f"{n}g" for n in (7, 4, 3, 2, 1)}}
    rows = {}
    for keyword, (name, mib) in named.items():
        number, compute, memory, starts, most = _SHAPES[shapes[keyword]]
        rows[gpu, name] = MigProfile(
            name=name,
            profile_id=number,
            compute_slices=compute,
            memory_slices=memory,
            starts=starts,
            most=most,
            total_mib=mib,
            source=source,
        )
    return rows


def _like_h100(gpu: str, source: str) -> dict[tuple[str, str], MigProfile]:
    return _card(
        gpu,
        source,
        slices_7=("7g.80gb", 81_152),
        slices_4=("4g.40gb", 40_448),
        slices_3=("3g.40gb", 40_448),
        slices_2=("2g.20gb", 20_096),
        double=("1g.20gb", 20_096),
        slices_1=("1g.10gb", 9_984),
        media=("1g.10gb+me", 9_984),
    )


def _like_h200(gpu: str, source: str) -> dict[tuple[str, str], MigProfile]:
    return _card(
        gpu,
        source,
        slices_7=("7g.141gb", 143_360),
        slices_4=("4g.71gb", 71_424),
        slices_3=("3g.71gb", 71_424),
        slices_2=("2g.35gb", 33_280),
        double=("1g.35gb", 33_280),
        slices_1=("1g.18gb", 16_384),
        media=("1g.18gb+me", 16_384),
    )


def _like_a100_80(gpu: str) -> dict[tuple[str, str], MigProfile]:
    return _card(
        gpu,
        LISTED,
        slices_7=("7g.80gb", 80_896),
        slices_4=("4g.40gb", 40_192),
        slices_3=("3g.40gb", 40_192),
        slices_2=("2g.20gb", 19_968),
        double=("1g.20gb", 19_968),
        slices_1=("1g.10gb", 9_728),
        media=("1g.10gb+me", 9_728),
    )


def _like_a100_40(gpu: str) -> dict[tuple[str, str], MigProfile]:
    return _card(
        gpu,
        LISTED,
        slices_7=("7g.40gb", 40_192),
        slices_4=("4g.20gb", 19_968),
        slices_3=("3g.20gb", 19_968),
        slices_2=("2g.10gb", 9_850),
        double=("1g.10gb", 9_850),
        slices_1=("1g.5gb", 4_864),
        media=("1g.5gb+me", 4_864),
    )


PROFILES: dict[tuple[str, str], MigProfile] = {
    **_like_h100("h100-80", MEASURED),
    **_like_h100("h100-pcie-80", LISTED),
    **_card(
        "h100-nvl-94",
        LISTED,
        slices_7=("7g.94gb", 94_842),
        slices_4=("4g.47gb", 47_226),
        slices_3=("3g.47gb", 47_226),
        slices_2=("2g.24gb", 22_016),
        double=("1g.24gb", 22_016),
        slices_1=("1g.12gb", 10_874),
        media=("1g.12gb+me", 10_874),
    ),
    **_like_h200("h200-141", MEASURED),
    **_like_h200("h200-nvl-141", LISTED),
    **_like_a100_80("a100-80"),
    **_like_a100_80("a100-pcie-80"),
    **_like_a100_40("a100-40"),
    **_like_a100_40("a100-pcie-40"),
    **_card(
        "b200-180",
        ESTIMATED,
        slices_7=("7g.180gb", 181_000),
        slices_4=("4g.90gb", 89_000),
        slices_3=("3g.90gb", 89_000),
        slices_2=("2g.45gb", 42_000),
        double=("1g.45gb", 42_000),
        slices_1=("1g.23gb", 20_500),
        media=("1g.23gb+me", 20_500),
    ),
}
"""Profiles by card (a name of catalog.GPUS) and name, the largest of each card first."""


def profiles_of(gpu: str) -> tuple[MigProfile, ...]:
    return tuple(row for (card, _), row in PROFILES.items() if card == gpu)


def places(profiles: Sequence[MigProfile]) -> tuple[int, ...] | None:
    """The memory slice at which each profile starts, in the given order; None if one card cannot hold them all.

    Larger profiles get their places first, and move again if the smaller ones then find none.
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
