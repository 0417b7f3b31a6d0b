"""Whether the toolkit role did its job, judged from the facts it has read anyway."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.refusals.errors import Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import Seen
from roles._pyinfra.steps import Command, Refuse
from roles.container_toolkit.operations import instances, is_current

ATTEMPT = "systemctl status nvidia-cdi-refresh.service and `nvidia-ctk cdi list` on the host say why"
STATE = "packages of the container toolkit are in place; no container was started with a GPU"


def judge(seen: Seen, mine: Slice) -> Iterator[Command]:
    """Nothing when `nvidia.com/gpu=all` and every planned MIG instance are described for the loaded driver."""
    if is_current(seen, mine):
        return
    is_cut = sorted(seen.value("instances").split()) == sorted(instances(mine))
    yield Refuse(_stale(seen) if is_cut else _not_cut(seen, mine))


def _stale(seen: Seen) -> Refusal:
    return Refusal(
        "the CDI specification does not describe the loaded driver",
        facts={
            "found": seen.value("described") or "no specification",
            "wanted": f"libcuda.so.{seen.value('driver') or 'of the loaded driver'}, and nvidia.com/gpu=all",
        },
        attempt=ATTEMPT,
        state=STATE,
        kind="cdi",
    )


def _not_cut(seen: Seen, mine: Slice) -> Refusal:
    return Refusal(
        "the CDI specification does not describe the planned MIG instances",
        facts={
            "found": " ".join(seen.value("instances").split()) or "none",
            "wanted": " ".join(instances(mine)) or "none",
        },
        attempt=ATTEMPT,
        state=STATE,
        kind="cdi-mig",
    )
