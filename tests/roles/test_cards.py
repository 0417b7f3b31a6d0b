"""Unmanaged GPUs: the whole text of the refusals about their cut."""

from __future__ import annotations

import pytest

from deploy.refusals.errors import PREFLIGHT
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts, Unit
from roles.cards import BOOT_UNIT, not_ours_to_cut
from tests.roles.slices import a_slice

HALVES = ("4g.40gb", "3g.40gb")


def mine(*profiles: str, gpus: int = 1) -> Slice:
    """A host with an unmanaged driver, its GPUs declared to be cut into `profiles`."""
    return a_slice(machine={"mig": profiles, "gpus": gpus}, driver={"manage": False}, mig=profiles)


def seen(*gpus: tuple[str, str, tuple[str, ...]]) -> HostFacts:
    """A host whose GPUs have this mode, this pending mode, and these instances."""
    modes = [f"{index}, {current}, {pending}" for index, (current, pending, _) in enumerate(gpus)]
    listed = []
    for index, (_, _, instances) in enumerate(gpus):
        listed.append(f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: GPU-{index})")
        listed += [f"  MIG {name}     Device  {at}: (UUID: MIG-{index}{at})" for at, name in enumerate(instances)]
    return HostFacts(values={"modes": "\n".join(modes), "listed": "\n".join(listed)})


WHOLE = ("Disabled", "Disabled", ())
CUT = ("Enabled", "Enabled", HALVES)


def message(facts: HostFacts, declared: Slice) -> str:
    """All refusals as an operator reads them."""
    return "\n\n".join(map(str, not_ours_to_cut(facts, declared, PREFLIGHT)))


def test_a_cut_gpu_is_declared_or_made_whole_by_its_owner() -> None:
    assert message(seen(CUT), mine()) == (
        "the GPUs are not cut as declared, and a driver that is not managed is left as it is\n"
        "  found   GPU 0: 4g.40gb + 3g.40gb\n"
        "  wanted  whole GPUs, MIG off\n"
        "  means   Driver(manage=False): MIG mode and instances belong to somebody else, and were left untouched\n"
        "  try     mig=('4g.40gb', '3g.40gb') in its Machine, and servers that fit there; or driver = "
        "Driver(manage=True); or their owner types nvidia-smi mig -i 0 -dci && nvidia-smi mig -i 0 -dgi && "
        "nvidia-smi -i 0 -mig 0\n"
        "  state   preflight; no host was changed"
    )


def test_a_whole_gpu_is_declared_or_cut_by_its_owner() -> None:
    assert message(seen(WHOLE, WHOLE), mine(*HALVES, gpus=2)) == (
        "the GPUs are not cut as declared, and a driver that is not managed is left as it is\n"
        "  found   GPU 0: MIG off; GPU 1: MIG off\n"
        "  wanted  4g.40gb + 3g.40gb\n"
        "  means   Driver(manage=False): MIG mode and instances belong to somebody else, and were left untouched\n"
        "  try     mig=() in its Machine, and servers that fit there; or driver = Driver(manage=True); or their owner "
        "types nvidia-smi -i 0,1 -mig 1 && nvidia-smi mig -i 0,1 -cgi 5:0,9:4 -C\n"
        "  state   preflight; no host was changed"
    )


def test_a_boot_unit_of_an_earlier_deploy_is_named() -> None:
    """With this unit, the next boot would cut unmanaged GPUs."""
    facts = HostFacts(values=seen(CUT).values, units={BOOT_UNIT: Unit("loaded", "inactive", "enabled")})
    assert message(facts, mine(*HALVES)) == (
        "a unit of an earlier deploy cuts the GPUs at every boot, and their driver is not managed\n"
        "  found   enginehouse-mig.service, enabled\n"
        "  wanted  no unit of this project that cuts them: Driver(manage=False)\n"
        "  try     systemctl disable enginehouse-mig.service on the host, once their owner gives them the declared cut "
        "at boot; or driver = Driver(manage=True)\n"
        "  state   preflight; no host was changed"
    )


@pytest.mark.parametrize(
    ("facts", "declared"),
    [
        (seen(WHOLE, WHOLE), mine(gpus=2)),
        (seen(CUT, CUT), mine(*HALVES, gpus=2)),
        (seen(("[N/A]", "[N/A]", ())), mine()),
        (HostFacts(), mine(*HALVES)),
        (HostFacts(values=seen(CUT).values, units={BOOT_UNIT: Unit("loaded", "inactive", "disabled")}), mine(*HALVES)),
    ],
    ids=["whole", "cut", "no-mig-mode", "no-driver", "unit-disabled"],
)
def test_gpus_cut_as_declared_are_accepted(facts: HostFacts, declared: Slice) -> None:
    """The driver role checks the number of GPUs."""
    assert message(facts, declared) == ""


@pytest.mark.parametrize(
    ("facts", "declared", "says"),
    [
        (seen(CUT, WHOLE), mine(gpus=2), "GPU 0: 4g.40gb + 3g.40gb"),
        (seen(WHOLE, CUT), mine(*HALVES, gpus=2), "GPU 0: MIG off"),
        (seen(("Enabled", "Enabled", ())), mine(), "GPU 0: MIG on, no instances"),
        (seen(("Enabled", "Disabled", ())), mine(), "GPU 0: MIG Enabled, Disabled is pending"),
        (seen(("[N/A]", "[N/A]", ())), mine(*HALVES), "GPU 0: no MIG mode"),
    ],
)
def test_only_a_gpu_that_is_not_as_declared_is_named(facts: HostFacts, declared: Slice, says: str) -> None:
    assert [problem.facts["found"] for problem in not_ours_to_cut(facts, declared, PREFLIGHT)] == [says]


@pytest.mark.parametrize(
    ("facts", "declared", "attempt"),
    [
        (seen(CUT, WHOLE), mine(gpus=2), "nvidia-smi mig -i 0 -dci && nvidia-smi mig -i 0 -dgi && "
         "nvidia-smi -i 0 -mig 0"),
        (seen(("Enabled", "Enabled", ("9g.1gb",))), mine(), "nvidia-smi mig -i 0 -dci && nvidia-smi mig -i 0 -dgi && "
         "nvidia-smi -i 0 -mig 0"),
        (seen(("Disabled", "Enabled", ())), mine(), "nvidia-smi -i 0 -mig 0"),
        (seen(WHOLE, ("Enabled", "Enabled", ("7g.80gb",))), mine(*HALVES, gpus=2), "nvidia-smi mig -i 1 -dci && "
         "nvidia-smi mig -i 1 -dgi && nvidia-smi -i 0 -mig 1 && nvidia-smi mig -i 0,1 -cgi 5:0,9:4 -C"),
    ],
    ids=["two-cuts", "unknown-profile", "on-is-pending", "each-gpu-its-own"],
)  # fmt: skip
def test_a_cut_that_cannot_be_declared_is_not_offered(facts: HostFacts, declared: Slice, attempt: str) -> None:
    (problem,) = not_ours_to_cut(facts, declared, PREFLIGHT)
    assert problem.attempt == f"driver = Driver(manage=True); or their owner types {attempt}"


def test_a_pending_mode_waits_for_a_boot_that_is_the_owners() -> None:
    (problem,) = not_ours_to_cut(seen(("Enabled", "Disabled", ())), mine(), PREFLIGHT)
    assert problem.attempt.endswith("or their owner reboots the host, which makes the pending mode effective")


def test_a_card_without_mig_gets_no_mig_command() -> None:
    (problem,) = not_ours_to_cut(seen(("[N/A]", "[N/A]", ())), mine(*HALVES), PREFLIGHT)
    assert problem.attempt == "mig=() in its Machine, and servers that fit there; or driver = Driver(manage=True)"
