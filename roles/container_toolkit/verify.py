"""Judges the result of the toolkit role by facts that are read anyway."""

from collections.abc import Iterator

from deploy.refusals import Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse
from roles.container_toolkit.operations import instances, is_current

ATTEMPT = "systemctl status nvidia-cdi-refresh.service and `nvidia-ctk cdi list` on the host say why"
STATE = "packages of the container toolkit are in place; no container was started with a GPU"


def judge(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    """A refusal unless `nvidia.com/gpu=all` and every planned MIG instance are described for the loaded driver."""
    if is_current(facts, mine):
        return
    is_cut = sorted(facts.value("instances").split()) == sorted(instances(mine))
    yield Refuse(_stale(facts) if is_cut else _not_cut(facts, mine))


def _stale(facts: HostFacts) -> Refusal:
    return Refusal(
        "the CDI specification does not describe the loaded driver",
        facts={
            "found": facts.value("described") or "no specification",
            "wanted": f"libcuda.so.{facts.value('driver') or 'of the loaded driver'}, and nvidia.com/gpu=all",
        },
        attempt=ATTEMPT,
        state=STATE,
        kind="cdi",
    )


def _not_cut(facts: HostFacts, mine: Slice) -> Refusal:
    return Refusal(
        "the CDI specification does not describe the planned MIG instances",
        facts={
            "found": " ".join(facts.value("instances").split()) or "none",
            "wanted": " ".join(instances(mine)) or "none",
        },
        attempt=ATTEMPT,
        state=STATE,
        kind="cdi-mig",
    )
