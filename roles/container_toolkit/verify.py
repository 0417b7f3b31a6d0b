"""Whether the toolkit role did its job, judged from the facts it has read anyway."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.errors import Refusal
from roles.container_toolkit.operations import is_current
from roles.seen import Seen
from roles.steps import Command, Refuse


def judge(seen: Seen) -> Iterator[Command]:
    """Nothing when `nvidia.com/gpu=all` is described for the loaded driver; otherwise a refusal."""
    if is_current(seen):
        return
    facts = {
        "found": seen.value("described") or "no specification",
        "wanted": f"libcuda.so.{seen.value('driver') or 'of the loaded driver'}, and nvidia.com/gpu=all",
    }
    problem = Refusal(
        "the CDI specification does not describe the loaded driver",
        facts=facts,
        attempt="systemctl status nvidia-cdi-refresh.service and `nvidia-ctk cdi list` on the host say why",
        state="packages of the container toolkit are in place; no container was started with a GPU",
        kind="cdi",
    )
    yield Refuse(problem)
