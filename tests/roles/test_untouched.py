"""A driver that is not managed is never touched: deploy.py on a host with a card that somebody else looks after."""

from __future__ import annotations

import runpy
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pytest

from deploy.slice import Slice
from deploy.spec import Firewall
from rehearsal.real_gpu.untouched import touches_card
from roles import undo
from roles.steps import Refuse
from roles.texts import HERE
from tests.roles.fake import Ran, run
from tests.roles.slices import a_slice
from tests.roles.triton import test_role

HOSTS = ("@fake/host",)
DRIVER = [
    "value\ton-disk\t580.159.04", "value\tloaded\t580.159.04", "value\tuser-space\t580.159.04",
    "value\tgpus\tGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)",
]  # fmt: skip
BROKEN = ["value\ton-disk\t580.159.04", "value\tloaded\t580.95.05", "value\tuser-space\t580.159.04"]
STOPPED = [*DRIVER, "unit\tId=nvidia-persistenced.service", "unit\tLoadState=loaded", "unit\tActiveState=inactive",
           "unit\tUnitFileState=disabled", "unit\t"]  # fmt: skip
WHOLE = ["value\tmodes\t0, Disabled, Disabled", "value\tlisted\tGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)"]
ROOT_LOGIN = "user=root\nuid=0"


def mine(manage: bool) -> Slice:
    """A host with one server and a firewall."""
    whole = a_slice(servers=(test_role.MAIN,), driver={"manage": manage})
    return replace(whole, weights=(test_role.WEIGHTS,), firewall=Firewall(allow=("10.0.0.0/8",)))


def deployed(manage: bool, seen: list[str], serves: bool = False) -> Ran:
    """deploy.py to its end: what a check refuses, because nothing that ran left anything there, is passed over."""
    plan = SimpleNamespace(
        for_host=lambda _: mine(manage), hosts=HOSTS, waves=(HOSTS,), slices=[mine(manage)], digest="plan-1"
    )
    answers = {
        "id -un": ROOT_LOGIN,
        "other-kernels": seen,
        "mig.mode.pending": WHOLE,
        "ssh-ports": "value\tssh-ports\t22",
        "states=active": "triton@main.service" if serves else "",
        **test_role.told(),
    }
    with (
        mock.patch("deploy.edge.inventory.planned", lambda *_: plan),
        mock.patch.object(Refuse, "_fail", lambda *_: True),
        mock.patch.object(undo, "over_a_new_connection", lambda *_: (True, [])),
        mock.patch("time.sleep"),
    ):
        return run(lambda: runpy.run_path(str(HERE / "deploy.py")), answers=answers)


def heard(ran: Ran) -> str:
    """All that the host was asked and told, with what it was sent on standard input."""
    return "\n".join(f"{each.command}\n{each.stdin}" for each in ran.shell["host"])


@pytest.mark.parametrize("seen", [DRIVER, STOPPED, BROKEN, []], ids=["healthy", "not-persistent", "split", "absent"])
@pytest.mark.parametrize("serves", [False, True], ids=["bare", "serving"])
def test_a_driver_that_is_not_managed_is_never_touched(seen: list[str], serves: bool) -> None:
    """Whatever it looks like: neither what is run on the host nor what is written there changes the card."""
    ran = deployed(False, seen, serves)
    assert {"Driver | Verify, as it is not managed", "Toolkit | Prove GPUs in a container"} <= set(ran.operations)
    assert "Cleanup | Remove what nothing will ask for" in ran.operations  # the run got to its end
    assert touches_card(heard(ran)) == []


def test_a_managed_one_is_so_the_same_look_finds_it() -> None:
    found = "\n".join(touches_card(heard(deployed(True, []))))
    assert "nvidia-kernel-open-dkms" in found and "--persistence-mode" in found
