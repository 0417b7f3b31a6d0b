"""The program that cuts GPUs at boot and for the role, with an nvidia-smi that keeps its state in a file."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.refusals.errors import PREFLIGHT
from host import mig, places
from roles._pyinfra.facts import HostFacts
from roles.cards import not_ours_to_cut
from tests.roles.slices import a_slice

ROOT = Path(__file__).parents[3]
HALVES = [{"profile": "4g.40gb", "id": 5, "start": 0}, {"profile": "3g.40gb", "id": 9, "start": 4}]

SMI = """#!/usr/bin/env python3
import json, os, sys
state = json.load(open(os.environ["STATE"]))
arguments = sys.argv[1:]
state["asked"].append(" ".join(arguments))
named = {5: "4g.40gb", 9: "3g.40gb"}
def ends(text, status=0):
    json.dump(state, open(os.environ["STATE"], "w"))
    print(text)
    sys.exit(status)
if "-L" in arguments:
    if "-i" in arguments:
        ends("ERROR: Option -i is not valid for this command. Please run 'nvidia-smi -h' for help.", 2)
    gpu = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)"
    cut = [f"  MIG {name}     Device  {i}: (UUID: MIG-{i})" for i, name in enumerate(state["devices"])]
    ends("\\n".join([gpu, *cut, gpu.replace("GPU 0", "GPU 1"), "  MIG 7g.80gb     Device  0: (UUID: MIG-9)"]))
if "--query-gpu=mig.mode.current,mig.mode.pending" in arguments:
    ends(f"{state['current']}, {state['pending']}")
if "-mig" in arguments:
    state["pending"] = {"1": "Enabled", "0": "Disabled"}[arguments[-1]]
    if state["held"]:
        ends("Warning: MIG mode is in pending enable state for GPU 0:In use by another client\\nAll done.")
    state["current"] = state["pending"]
    ends("Enabled MIG Mode for GPU 00000000:01:00.0\\nAll done.")
if state["current"] != "Enabled":
    ends("No MIG-enabled devices found.")
if "-dci" in arguments or "-dgi" in arguments:
    if not state["devices"]:
        ends("No GPU instances found: Not Found", 6)
    if state["busy"]:
        ends("Unable to destroy compute instance ID  0 from GPU  0 GPU instance ID  1: In use by another client", 19)
    state["devices"] = [] if "-dgi" in arguments else state["devices"]
    ends("Successfully destroyed")
if "-cgi" in arguments:
    state["devices"] = [named[int(one.split(":")[0])] for one in arguments[arguments.index("-cgi") + 1].split(",")]
    ends("Successfully created")
"""
SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$STATE.units"
case $1 in
    list-units) [ ! -e "$STATE.running" ] || cat "$STATE.running" ;;
    stop) sed -i 's/"held": 1/"held": 0/' "$STATE" ;;
esac
exit 0
"""


class Host:
    """The program with an nvidia-smi and a systemctl that record their calls."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.settings = folder / "state", folder / "mig.json"
        monkeypatch.setattr(places, "SETTINGS", folder)

    def is_now(self, **changes: Any) -> None:
        """Sets modes and devices before the program runs."""
        good = {"current": "Disabled", "pending": "Disabled", "devices": [], "held": 0, "busy": 0, "asked": []}
        self.state.write_text(json.dumps(good | changes))

    def apply(self, instances: list[dict[str, object]]) -> int:
        """The program's exit status."""
        self.settings.write_text(json.dumps({"gpus": 1, "instances": instances}))
        return mig.main(["apply"])

    def changes(self) -> list[str]:
        """Calls of nvidia-smi that change the GPU: modes, creation and destruction."""
        commands = json.loads(self.state.read_text())["asked"]
        return [line for line in commands if "-L" not in line and "query" not in line]

    @property
    def devices(self) -> list[str]:
        """The MIG devices that `nvidia-smi -L` lists."""
        return list(json.loads(self.state.read_text())["devices"])

    def seen(self) -> HostFacts:
        """The role's fact about the GPU."""
        state = json.loads(self.state.read_text())
        listed = subprocess.run(["nvidia-smi", "-L"], check=True, capture_output=True, text=True).stdout
        return HostFacts(values={"modes": f"0, {state['current']}, {state['pending']}", "listed": listed})


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with one GPU."""
    for name, text in {"nvidia-smi": SMI, "systemctl": SYSTEMCTL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("STATE", str(tmp_path / "state"))
    return Host(tmp_path, monkeypatch)


def test_a_whole_gpu_is_cut_at_the_planned_places(host: Host) -> None:
    """The program sets the mode, then creates both instances with their compute instances in one call, without
    destroying any."""
    host.is_now()
    assert host.apply(HALVES) == 0
    assert host.changes() == ["-i 0 -mig 1", "mig -i 0 -dci", "mig -i 0 -dgi", "mig -i 0 -cgi 5:0,9:4 -C"]


def test_a_gpu_that_is_cut_as_planned_is_left_alone(host: Host) -> None:
    """The program only reads the GPU's state."""
    host.is_now(current="Enabled", pending="Enabled", devices=["4g.40gb", "3g.40gb"])
    assert (host.apply(HALVES), host.changes()) == (0, [])


def test_other_instances_are_destroyed_first(host: Host) -> None:
    """Compute instances before GPU instances."""
    host.is_now(current="Enabled", pending="Enabled", devices=["3g.40gb", "3g.40gb"])
    assert host.apply(HALVES) == 0
    assert (host.changes()[:2], host.devices) == (["mig -i 0 -dci", "mig -i 0 -dgi"], ["4g.40gb", "3g.40gb"])


def test_a_plan_without_instances_makes_the_gpu_whole(host: Host) -> None:
    """The instances are destroyed, then the mode is turned off."""
    host.is_now(current="Enabled", pending="Enabled", devices=["4g.40gb", "3g.40gb"])
    assert host.apply([]) == 0
    assert host.changes() == ["mig -i 0 -dci", "mig -i 0 -dgi", "-i 0 -mig 0"]


def test_a_card_without_mig_is_whole(host: Host) -> None:
    """A card without MIG has no mode to turn off."""
    host.is_now(current="[N/A]", pending="[N/A]")
    assert (host.apply([]), host.changes()) == (0, [])


def test_a_pending_mode_asks_for_a_reboot(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 75, with nvidia-smi's message; no instance is created."""
    host.is_now(held=2)
    assert host.apply(HALVES) == 75
    assert "In use by another client; a reboot makes it so" in capsys.readouterr().err
    assert "mig -i 0 -cgi 5:0,9:4 -C" not in host.changes()


def test_daemons_that_hold_the_gpu_are_stopped_and_started_again(host: Host) -> None:
    """The daemons are a Triton of this host and DCGM, if they run."""
    host.is_now(held=1)
    (host.state.parent / "state.running").write_text("nvidia-dcgm.service loaded active running\n")
    assert host.apply(HALVES) == 0
    units = (host.state.parent / "state.units").read_text().splitlines()
    assert [line for line in units if not line.startswith("list-units")] == [
        "stop nvidia-dcgm.service",
        "start --no-block nvidia-dcgm.service",
    ]


def test_instances_in_use_stay_and_the_message_of_nvidia_smi_is_shown(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instance in use keeps its GPU's whole layout."""
    host.is_now(current="Enabled", pending="Enabled", devices=["3g.40gb", "3g.40gb"], busy=1)
    assert (host.apply(HALVES), host.devices) == (1, ["3g.40gb", "3g.40gb"])
    assert "In use by another client" in capsys.readouterr().err


@pytest.mark.parametrize("wanted", [(), ("4g.40gb", "3g.40gb")], ids=["whole", "halves"])
@pytest.mark.parametrize("devices", [[], ["4g.40gb", "3g.40gb"], ["3g.40gb", "3g.40gb"]], ids=["none", "halves", "3g"])
@pytest.mark.parametrize("mode", ["Enabled", "Disabled"])
def test_the_commands_offered_to_a_gpus_owner_cut_it_as_declared(
    host: Host, mode: str, devices: list[str], wanted: tuple[str, ...]
) -> None:
    """The command of the refusal for `Driver(manage=False)` works; afterwards there is no refusal."""
    host.is_now(current=mode, pending=mode, devices=devices if mode == "Enabled" else [])
    mine = a_slice(machine={"mig": wanted}, driver={"manage": False}, mig=wanted)
    for problem in not_ours_to_cut(host.seen(), mine, PREFLIGHT):
        subprocess.run(problem.attempt.partition("their owner types ")[2], shell=True, check=True)
    assert list(not_ours_to_cut(host.seen(), mine, PREFLIGHT)) == []
