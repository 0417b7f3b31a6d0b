"""A plain run recognises and repairs unfinished work; no person has to clean up after a killed run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rehearsal.checkpoints import checkpoints
from rehearsal.pyinfra_run import Run
from tests.faults import leftovers
from tests.faults.scene import PLACES, WELL, Polls, Scene, answers, until
from tests.rehearsal.unloadable import make_unloadable

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

RENAMED = "tests/faults/inventories/renamed.py"
RENAMED_UNLOADABLE = "tests/faults/inventories/renamed_unloadable.py"
UNREAD = "systemctl show -p NeedDaemonReload --value triton@main.service"
WAITING = "ls /etc/enginehouse/undo; systemctl list-timers --all --plain --no-legend 'enginehouse-undo-*'"
CONTAINERS = "docker ps --all --format '{{.Names}}' | sort"
PARTIAL = "ls -d /var/lib/enginehouse/releases/.*.partial /var/lib/enginehouse/weights/*/.*.partial"
BACK_SECONDS = 600
GIVEN_UP = (
    "systemctl is-active triton@main; journalctl -q -u triton@main -n 9 -o cat | grep -m 1 -o 'repeated too quickly'"
)


@pytest.fixture(scope="module")
def mended(serving: Scene) -> tuple[Scene, Run, Run, Polls, set[str]]:
    """Runs a deploy twice on a serving host with remains of killed runs while a client asks; returns both runs, the
    missed answers, and the doctor's earlier findings.
    """
    scene = serving
    for made in (
        leftovers.UNCONFIRMED,
        leftovers.ORPHANS,
        leftovers.TRANSFERS,
        leftovers.OTHER_SERVER,
        leftovers.UNREAD_UNIT,
    ):
        scene.machine.run(f"{{ {made} }} >/dev/null 2>&1", check=False)
    remains = scene.says(
        f"{UNREAD}; {CONTAINERS}; {PARTIAL} | wc -l; {{ {WAITING}; }} | grep -c -e docker -e units-triton"
    )
    assert remains.split() == ["yes", *sorted(["triton-main", *LEFT]), "2", "4"], remains
    findings = scene.diagnosed()
    with scene.polled() as polls:
        return scene, scene.deploy(), scene.deploy(), polls, findings


LEFT = ("triton-old", "enginehouse-probe-main", "enginehouse-gpu-probe")
Mended = tuple[Scene, Run, Run, Polls, set[str]]


def test_a_plain_run_mends_it_all_and_the_next_is_silent(mended: Mended) -> None:
    _, first, second, *_ = mended
    assert (first.code, second.is_silent) == (0, True), (first.output + second.output)[-6000:]


def test_the_doctor_names_the_leftovers_and_is_silent_once_they_are_gone(mended: Mended) -> None:
    assert (mended[4] >= {"undo-waiting", "server-left"}, mended[0].diagnosed()) == (True, set())


def test_the_running_server_keeps_serving_meanwhile(mended: Mended) -> None:
    assert mended[3].missed == []


def test_containers_that_lost_their_unit_or_program_are_gone(mended: Mended) -> None:
    assert mended[0].says(CONTAINERS) == "triton-main"


def test_units_that_were_written_and_not_read_are_read(mended: Mended) -> None:
    assert mended[0].says(UNREAD) == "no"


def test_pending_changes_are_confirmed_and_their_timers_stopped(mended: Mended) -> None:
    assert mended[0].says(WAITING) == ""


def test_abandoned_transfers_are_removed_and_reported(mended: Mended) -> None:
    assert mended[0].says(PARTIAL) == ""
    assert f"no longer needed: {leftovers.DATA}/weights/minilm/.{leftovers.REVISION}.partial" in mended[1].output


def test_a_server_of_an_earlier_inventory_is_gone_with_its_units(mended: Mended) -> None:
    units = "systemctl list-units --all --plain --no-legend '*@gone*'; systemctl is-enabled triton@gone"
    assert mended[0].says(f"{units}; ls -d {leftovers.UNITS}/*gone* {leftovers.UNITS}/*.wants/*gone*") == "disabled"


def test_a_failed_unit_and_a_container_that_outlived_it_are_no_obstacle(scene: Scene) -> None:
    scene.machine.run(f"{{ {leftovers.GIVEN_UP} {leftovers.OUTLIVED} }} >/dev/null 2>&1", check=False)
    assert scene.says(f"{GIVEN_UP}; {CONTAINERS}").splitlines() == ["failed", "repeated too quickly", "triton-main"]
    assert scene.diagnosed() >= {"unit-failed", "port-taken"}
    assert scene.ends_well() == WELL


def test_a_server_may_be_renamed_and_renamed_back(scene: Scene) -> None:
    assert scene.deploy(inventory=RENAMED).code == 0
    assert scene.diagnosed() >= {"server-missing", "server-left"}, "from the plan of before"
    assert (scene.says(CONTAINERS), scene.deploy(inventory=RENAMED).is_silent) == ("triton-other", True)
    assert scene.ends_well() == WELL
    assert (scene.says(CONTAINERS), answers(scene.machine)) == ("triton-main", True)


def test_a_failed_rename_leaves_the_server_serving_under_its_old_name(scene: Scene) -> None:
    make_unloadable(checkpoints(), PLACES.root)
    before = scene.current()
    run = scene.deploy(inventory=RENAMED_UNLOADABLE)
    assert (run.code, "does not serve; server main serves again" in run.output) == (1, True), run.output[-3000:]
    assert (answers(scene.machine), scene.current(), scene.says(CONTAINERS)) == (True, before, "triton-main")
    assert scene.says("systemctl is-active enginehouse-watch@main.timer") == "active"
    assert scene.ends_well() == WELL


def cut_power(scene: Scene) -> None:
    """Cuts the power and boots again."""
    scene.machine.power_cycle()


def kill_swap(scene: Scene) -> None:
    """Kills the host's own swap program."""
    scene.machine.run("systemctl kill --kill-who=main --signal=KILL enginehouse-swap@other.service")


@pytest.mark.parametrize("cut", [cut_power, kill_swap])
def test_a_rename_cut_during_the_start_leaves_the_old_server_serving(
    scene: Scene, cut: Callable[[Scene], None]
) -> None:
    def strike() -> None:
        begun = "[ -e /var/lib/enginehouse/servers/other/swap.json ] && ! docker inspect triton-main"
        scene.machine.run(f"for i in $(seq 300); do {{ {begun}; }} >/dev/null 2>&1 && break; sleep 0.1; done")
        cut(scene)

    before = scene.current()
    run = scene.deploy(inventory=RENAMED, at="Triton | Swap", strike=strike)
    assert (run.code, until(lambda: answers(scene.machine), BACK_SECONDS)) == (1, True), run.output[-3000:]
    assert (scene.current(), scene.says(CONTAINERS)) == (before, "triton-main")
    assert scene.ends_well() == WELL
