"""Judges if the GPUs are cut as planned, and refuses if they cannot be."""

from collections.abc import Iterator

from deploy.refusals import Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse
from roles.cards import gpus, is_cut, not_ours_to_cut, planned_cut

UNTOUCHED = "the MIG role has destroyed and created nothing; driver packages are in place"
LEFT_ALONE = "driver and GPUs are unchanged; no container was started with a GPU"


def judge(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    """A refusal unless every GPU has exactly the planned instances, in their order."""
    if is_cut(facts, mine):
        return
    wrong = next((gpu for gpu in gpus(facts) if not gpu.is_cut(mine.mig)), None)
    problem = Refusal(
        f"GPU {wrong.index} is not cut as planned" if wrong else "the driver shows fewer GPUs than are to be cut",
        facts={"found": wrong.cut if wrong else f"{len(gpus(facts))} GPUs", "wanted": " + ".join(mine.mig)},
        attempt="journalctl -u enginehouse-mig.service, and `nvidia-smi mig -lgi` on the host say why",
        state="driver in place; no container was started with a GPU",
        kind="mig",
    )
    yield Refuse(problem)


def not_managed(facts: HostFacts, mine: Slice) -> Iterator[Command]:
    yield from map(Refuse, not_ours_to_cut(facts, mine, LEFT_ALONE))


def in_use(facts: HostFacts, mine: Slice) -> Refusal:
    """The refusal to cut GPUs in use."""
    users = [row.partition(" ") for row in facts.value("users").splitlines()]
    more = f" and {len(users) - 5} more" if len(users) > 5 else ""
    now = "; ".join(f"GPU {gpu.index}: {gpu.cut}" for gpu in gpus(facts) if not gpu.is_cut(mine.mig))
    return Refusal(
        "the MIG instances have to change, and another program uses these GPUs",
        facts={
            "found": now or "no GPU",
            "wanted": planned_cut(mine),
            "used by": ", ".join(f"{name} ({pid})" for pid, _, name in users[:5]) + more,
        },
        attempt="stop it and run again; or declare the present instances: Machine(mig=…)",
        state=UNTOUCHED,
        kind="mig-in-use",
    )


def no_mig(mine: Slice) -> Refusal:
    return Refusal(
        "this GPU cannot be cut: the driver reports no MIG mode for it",
        facts={"found": "mig.mode.current [N/A]", "wanted": " + ".join(mine.mig)},
        attempt="ask the provider (a vGPU guest has no MIG of its own), or mig=() in its Machine",
        state=UNTOUCHED,
        kind="mig-not-offered",
    )
