"""The role on fake hosts: bare, finished, half-finished, and with a server that is no longer planned."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from deploy.slices.host import RepairSlice, Slice
from roles import health
from roles.health.defaults import Defaults
from roles.health.operations import REPAIR, REPAIR_UNIT, texts
from tests.roles.fake import Ran, run
from tests.roles.slices import a_slice

MINE = a_slice()
WATCH, GPU = "enginehouse-watch@main.timer", "enginehouse-gpu-state.timer"
DONE = f"enabled={WATCH}\nrunning={WATCH}\nenabled={GPU}\nrunning={GPU}"


MENDS = replace(a_slice(machine={"repair": "reset"}), repair=RepairSlice(allowed="reset", max_unavailable=2))
RUNS = [f"unit\tId={REPAIR_UNIT}", "unit\tLoadState=loaded", "unit\tActiveState=active",
        "unit\tUnitFileState=enabled", "unit\t"]  # fmt: skip


def placed(chosen: Defaults | None = None, mine: Slice = MINE) -> str:
    """The answer of a host with the right files."""
    return "\n".join(f"{text.wanted_fact} {text.path}" for text in texts(mine, chosen or Defaults()))


def play(
    seen: str = "",
    going: str = "",
    mine: Slice = MINE,
    repairs: list[str] | None = None,
    left: str = "",
    **options: Any,
) -> Ran:
    """The role on one host with these answers."""
    answers = {"%n %a %U": seen, "timers.target.wants": going, "systemctl show --property=Id": repairs or []}
    return run(lambda: health.apply(mine), answers=answers | {f"{REPAIR_UNIT} ] ||": left}, **options)


def test_a_bare_host_gets_programs_units_and_timers() -> None:
    ran = play()
    assert ran.changed == ("Health | Install watchdog and GPU state", "Health | Run the timers")
    assert ran.commands[-1] == f"systemctl enable --now {WATCH} {GPU}"


def test_a_finished_host_changes_nothing() -> None:
    ran = play(placed(), DONE)
    assert (ran.changed, ran.would_change) == ((), ())


def test_a_timer_that_was_stopped_by_hand_runs_again() -> None:
    assert play(placed(), DONE.replace(f"\nrunning={WATCH}", "")).commands == (f"systemctl enable --now {WATCH}",)


def test_a_server_that_is_no_longer_planned_is_no_longer_watched() -> None:
    old = "\nenabled=enginehouse-watch@old.timer\nrunning=enginehouse-watch@old.timer"
    assert play(placed(), DONE + old).commands == ("systemctl disable --now enginehouse-watch@old.timer",)


def test_a_server_that_may_have_to_serve_again_stays_watched() -> None:
    """The server is watched until the role triton removes it after the swap."""
    old = "".join(f"\n{state}=enginehouse-watch@old.timer" for state in ("enabled", "running", "needed"))
    assert play(placed(), DONE + old).changed == ()


def test_changed_times_are_written_and_running_timers_reloaded() -> None:
    ran = play(placed(), DONE, data={"health_settings": {"watch_seconds": 15}})
    assert ran.would_change == ("Health | Install watchdog and GPU state",)
    assert [command.splitlines()[0].split(" && ")[-1] for command in ran.commands[2:-2]] == [
        "mv -T /etc/systemd/system/enginehouse-watch@.timer.enginehouse-new"
        " /etc/systemd/system/enginehouse-watch@.timer",
        "mv -T /etc/enginehouse/watch.json.enginehouse-new /etc/enginehouse/watch.json",
        "systemctl daemon-reload",
        "systemctl try-restart 'enginehouse-watch@*.timer' enginehouse-gpu-state.timer",
    ]


def test_a_dry_run_announces_every_step_of_a_bare_host() -> None:
    assert len(play(dry=True).would_change) == 2


def test_the_gate_sees_the_gpus_although_the_swap_sees_no_device() -> None:
    gate = next(text.content for text in texts(MINE, Defaults()) if text.path.endswith("gate.conf"))
    assert "ExecStartPre=+/usr/bin/python3 -B /usr/local/lib/enginehouse/host gpu-state gate %i\n" in gate
    # `+` lifts restrictions on paths, but not device rules: without this one nvidia-smi printed "Unknown Error" on a
    # real card.
    assert "DeviceAllow=char-nvidia* rw\n" in gate


def test_the_reader_of_the_gpus_keeps_its_devices() -> None:
    unit = next(text.content for text in texts(MINE, Defaults()) if text.path.endswith("gpu-state.service"))
    closing = ("PrivateDevices=", "ProtectClock=", "DeviceAllow=", "DevicePolicy=")
    assert [line for line in unit.splitlines() if line.startswith(closing)] == []


def test_repairs_are_on_a_host_only_where_the_inventory_allows_them() -> None:
    assert not any("repair" in text.path for text in texts(MINE, Defaults()))
    ran = play(placed(), DONE, MENDS)
    assert ran.changed == ("Health | Install watchdog and GPU state", "Health | Repair GPUs: run the service")
    assert ran.commands[-1] == f"systemctl enable --now {REPAIR_UNIT}"


def test_a_host_that_repairs_already_changes_nothing() -> None:
    ran = play(placed(mine=MENDS), DONE, MENDS, RUNS)
    assert (ran.changed, ran.would_change) == ((), ())


def test_a_repair_service_that_was_stopped_runs_again() -> None:
    stopped = [line.replace("ActiveState=active", "ActiveState=inactive") for line in RUNS]
    assert play(placed(mine=MENDS), DONE, MENDS, stopped).commands == (f"systemctl enable --now {REPAIR_UNIT}",)


def test_a_changed_number_of_repairs_restarts_the_service() -> None:
    ran = play(placed(mine=MENDS), DONE, MENDS, RUNS, data={"health_settings": {"repairs": 1}})
    assert any(f"systemctl try-restart {REPAIR_UNIT}" in command for command in ran.commands)
    assert not any("try-restart 'enginehouse-watch@" in command for command in ran.commands)


def test_repairs_that_are_allowed_no_more_are_taken_off_once() -> None:
    ran = play(placed(), DONE, left="there")
    assert ran.changed == ("Health | Stop repairs of GPUs: the inventory allows none",)
    assert ran.commands[0].startswith(f"systemctl disable --now {REPAIR_UNIT}; rm -rf ")
    assert play(placed(), DONE).changed == ()


def test_the_settings_of_repairs_are_those_of_the_plan_and_of_the_role() -> None:
    written = json.loads(next(text.content for text in texts(MENDS, Defaults()) if text.path == REPAIR))
    assert len(written.pop("programs")) == 64
    assert written == {
        "allowed": "reset",
        "max_unavailable": 2,
        "gpus": 1,
        "mig": False,
        "tries": 3,
        "look_seconds": 60,
    }
