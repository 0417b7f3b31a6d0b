"""deploy.py never touches an unmanaged driver: a host with a card that this project does not manage."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import pytest

from deploy.slices.host import Slice
from deploy.spec import Firewall
from rehearsal.real_gpu.untouched import touches_card
from roles._pyinfra import undo
from roles._pyinfra.steps import Refuse
from roles._shipping.texts import HERE
from roles.mig import defaults
from tests.roles.fake import Ran, run
from tests.roles.plans import a_plan
from tests.roles.slices import a_slice
from tests.roles.triton import serving

HOSTS = ("@fake/host",)
HALVES = ("4g.40gb", "3g.40gb")
DRIVER = [
    "value\ton-disk\t580.159.04", "value\tloaded\t580.159.04", "value\tuser-space\t580.159.04",
    "value\tgpus\tGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)",
]  # fmt: skip
BROKEN = ["value\ton-disk\t580.159.04", "value\tloaded\t580.95.05", "value\tuser-space\t580.159.04"]
STOPPED = [*DRIVER, "unit\tId=nvidia-persistenced.service", "unit\tLoadState=loaded", "unit\tActiveState=inactive",
           "unit\tUnitFileState=disabled", "unit\t"]  # fmt: skip
GPU = "value\tlisted\tGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)"
INSTANCES = [f"value\tlisted\t  MIG {name}     Device  {at}: (UUID: MIG-{at})" for at, name in enumerate(HALVES)]
BOOT_UNIT = ["unit\tId=enginehouse-mig.service", "unit\tLoadState=loaded", "unit\tActiveState=inactive",
             "unit\tUnitFileState=enabled", "unit\t"]  # fmt: skip
WHOLE = ["value\tmodes\t0, Disabled, Disabled", GPU]
CUT = ["value\tmodes\t0, Enabled, Enabled", GPU, *INSTANCES]
OFF_IS_PENDING = ["value\tmodes\t0, Enabled, Disabled", GPU]
ON_IS_PENDING = ["value\tmodes\t0, Disabled, Enabled", GPU]
ROOT_LOGIN = "user=root\nuid=0"


def mine(manage: bool, cut: tuple[str, ...] = ()) -> Slice:
    """A host with one server and a firewall, its GPU declared to be cut."""
    host = a_slice(servers=(serving.MAIN,), driver={"manage": manage}, machine={"mig": cut}, mig=cut)
    return replace(host, weights=(serving.WEIGHTS,), firewall=Firewall(allow=("10.0.0.0/8",)))


def deployed(
    manage: bool, seen: list[str], serves: bool = False, card: Sequence[str] = WHOLE, cut: tuple[str, ...] = ()
) -> Ran:
    """deploy.py to its end; refusals of checks are ignored, because the commands have no effect on fake hosts."""
    whole = mine(manage, cut)
    plan = a_plan(replace(whole, host=HOSTS[0]))
    answers = {
        "id -un": ROOT_LOGIN,
        "other-kernels": seen,
        "mig.mode.pending": list(card),
        "ssh-ports": "value\tssh-ports\t22",
        "states=active": "triton@main.service" if serves else "",
        **serving.host_answers(),
        "boot_id": "boot-after",  # a run that reboots a host although it must not can still end, and fails below
    }
    with (
        mock.patch("deploy.io.inventory.planned", lambda *_: plan),
        mock.patch.object(Refuse, "_fail", lambda *_: True),
        mock.patch.object(undo, "over_a_new_connection", lambda *_: (True, [])),
        mock.patch("time.sleep"),
    ):
        return run(lambda: runpy.run_path(str(HERE / "deploy.py")), answers=answers)


def heard(ran: Ran) -> str:
    """All commands to the host, including standard input."""
    return "\n".join(f"{call.command}\n{call.stdin}" for call in ran.shell["host"])


@pytest.mark.parametrize("seen", [DRIVER, STOPPED, BROKEN, []], ids=["healthy", "not-persistent", "split", "absent"])
@pytest.mark.parametrize("serves", [False, True], ids=["bare", "serving"])
def test_a_driver_that_is_not_managed_is_never_touched(seen: list[str], serves: bool) -> None:
    """No command and no written file changes the card, in any state of its driver."""
    ran = deployed(False, seen, serves)
    assert {"Driver | Verify the unmanaged driver", "Toolkit | Prove GPUs in a container"} <= set(ran.operations)
    assert "Cleanup | Remove unneeded images, weights and engines" in ran.operations  # the run reached its end
    assert touches_card(heard(ran)) == []


@pytest.mark.parametrize(
    ("card", "cut", "serves"),
    [
        (CUT, (), False),
        (CUT, (), True),
        (OFF_IS_PENDING, (), False),
        (WHOLE, HALVES, False),
        (ON_IS_PENDING, HALVES, True),
        ([*CUT, *BOOT_UNIT], HALVES, False),
    ],
    ids=["cut", "cut-and-serving", "off-is-pending", "whole", "on-is-pending-and-serving", "unit-of-a-managed-time"],
)
def test_the_mig_cut_of_an_unmanaged_driver_is_never_touched(
    card: list[str], cut: tuple[str, ...], serves: bool
) -> None:
    """No GPU is cut, made whole or rebooted for any declaration, and no unit is added that would do so at boot."""
    ran = deployed(False, DRIVER, serves, card, cut)
    assert "MIG | Verify the cut under an unmanaged driver" in ran.operations
    assert "Cleanup | Remove unneeded images, weights and engines" in ran.operations
    assert touches_card(heard(ran)) == []
    written = [f"> {path}.enginehouse-new" for path in (defaults.UNIT, defaults.CUT)]
    assert [piece for piece in ["systemctl reboot", *written] if piece in heard(ran)] == []


def test_the_check_detects_a_changed_mig_layout() -> None:
    cut = heard(deployed(True, DRIVER, card=CUT))
    assert "host mig apply" in "\n".join(touches_card(cut)) and f"> {defaults.CUT}.enginehouse-new" in cut


def test_the_check_detects_a_changed_driver() -> None:
    commands = "\n".join(touches_card(heard(deployed(True, []))))
    assert "nvidia-kernel-open-dkms" in commands and "--persistence-mode" in commands
