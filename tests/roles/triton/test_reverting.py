"""rollback.py on fake hosts: one run is reverted on exactly the hosts that it changed, once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyinfra import state

from deploy.refusals.errors import Refusal
from roles.triton import reverting
from roles.triton.run_history import Change
from tests.roles.triton.histories import FIRST, NAMES, SECOND, THIRD, Machines, typed


def test_the_last_run_is_taken_back_on_exactly_the_hosts_it_changed(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("four", "two"))
    ran = typed(machines)
    assert (ran.failed_hosts, machines.changed) == ((), ["four", "two"])
    assert set(machines.current.values()) == {"a"}
    assert [name for name in ran.operations if name.startswith("Gate | Wave")][-1] == "Gate | Wave 2 of 2"


def test_the_history_says_which_run_in_which_wave_took_back_which(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    typed(machines)
    lines = [json.loads(machines.history[name][-1]) for name in NAMES]
    assert [(line["wave"], line["back"]) for line in lines] == [(3, SECOND), (2, SECOND), (2, SECOND), (1, SECOND)]
    assert len({line["run"] for line in lines}) == 1 and lines[0]["run"] > SECOND


def test_a_second_rollback_changes_nothing_and_says_so(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("one", "two"))
    typed(machines)
    again = typed(machines)
    assert (again.failed_hosts, again.changed, machines.changed) == ((), (), [])
    log = "\n".join(again.log)
    assert f"run {SECOND} is already reverted on @fake/one, @fake/two: there is nothing to do" in log
    assert f"{FIRST}  ada@desk, @fake/four, @fake/one, @fake/three, @fake/two, plan 77aa" in log


def test_the_run_before_is_taken_back_by_its_name(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.deployed(THIRD, "c", ("two",))
    typed(machines)
    assert (typed(machines, SECOND).failed_hosts, set(machines.current.values())) == ((), {"a"})


def test_rolling_back_a_rollback_goes_forward_again(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    typed(machines)
    took_back = json.loads(machines.history["one"][-1])["run"]
    assert (typed(machines, took_back).failed_hosts, set(machines.current.values())) == ((), {"b"})


def test_a_run_that_its_own_gate_took_back_is_passed_over(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.deployed(THIRD, "c", ("one", "two"))
    for name in ("one", "two"):
        machines.serves(name, "b", run=THIRD, plan="77aa", who="ada@desk", wave=1, back=THIRD)
    named = typed(machines, THIRD)
    assert (machines.changed, f"run {THIRD} is already reverted on @fake/one, @fake/two" in str(named.log)) == (
        [],
        True,
    )
    assert (typed(machines).failed_hosts, set(machines.current.values())) == ((), {"a"})


def test_reverting_a_partly_reverted_run_reverts_the_rest(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("one", "two"))
    machines.serves("two", "a", run=SECOND, plan="77aa", who="ada@desk", wave=2, back=SECOND)
    assert (typed(machines).failed_hosts, machines.changed) == ((), ["one"])


def test_reverting_an_earlier_run_is_refused_for_all_hosts(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.deployed(THIRD, "c", ("two", "four"))
    with pytest.raises(Refusal) as refused:
        typed(machines, SECOND)
    assert (str(refused.value).startswith("2 problems"), machines.changed) == (True, [])
    assert (
        f"@fake/four: run {SECOND} cannot be reverted on main\n"
        f"  why    since then c is current, which run {THIRD} brought\n"
        "  try    revert the later run first, or leave the host out (--limit), or change the inventory and deploy\n"
        "  state  nothing was changed on any host"
    ) in str(refused.value)


def test_an_unknown_run_is_refused_and_the_last_ones_are_listed(machines: Machines) -> None:
    for number in range(1, 8):
        machines.deployed(f"2026112{number}-080000-aaaa", "ab"[number % 2], ("one",))
    with pytest.raises(Refusal) as refused:
        typed(machines, "20250101-000000-0000")
    assert (
        "no host's history has a run 20250101-000000-0000\n"
        "  run 1  20261127-080000-aaaa  ada@desk, @fake/one, plan 77aa\n"
        "  run 2  20261126-080000-aaaa"
    ) in str(refused.value)
    assert "20261122" not in str(refused.value) and refused.value.attempt == "--data run=20261127-080000-aaaa"


def test_hosts_without_a_recorded_run_have_nothing_to_revert(machines: Machines) -> None:
    machines.serves("one", "a", plan="77aa")  # by a version that wrote no run
    with pytest.raises(Refusal, match="no host's history has a run that changed its servers"):
        typed(machines)


def test_the_first_release_of_a_host_has_no_way_back(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    with pytest.raises(Refusal, match="no release served there before that run"):
        typed(machines)


def test_a_release_that_is_gone_has_no_way_back(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.releases.remove("a")
    with pytest.raises(Refusal, match="release a is no longer on the host"):
        typed(machines)


def test_dry_lists_changes_and_makes_none(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("two",))
    ran = typed(machines, dry=True)
    assert (ran.would_change, machines.changed) == ((f"Triton | Revert run {SECOND} on main",), [])
    assert f"reverts run {SECOND}: main from b to a on @fake/two" in ran.log
    assert "it does not undo: driver, Docker" in str(ran.log)


def test_a_rollback_without_change_detection_does_the_same(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("two",))
    assert (typed(machines, detect_changes=False).failed_hosts, machines.changed) == ((), ["two"])


def test_a_server_changed_after_the_check_is_left_alone(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server changes between the check and the lock, as by another run."""
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("two",))
    swap = machines.answers

    def answers(name: str) -> dict[Any, Any]:
        def come(_: str) -> list[str]:
            lines = list(machines.history[name])
            if name == "two":
                machines.deployed(THIRD, "c", ("two",))
            return lines

        def serving(command: str) -> str:
            state_text = str(swap(name)['echo "server=$s"'](command))
            return state_text if state.is_executing else state_text.replace("current=c", "current=b")

        return {**swap(name), "history.jsonl": come, 'echo "server=$s"': serving}

    monkeypatch.setattr(machines, "answers", answers)
    ran = typed(machines)
    assert ("two" in ran.failed_hosts, machines.changed) == (True, [])
    assert "since then c is current" in str(ran.log)


def test_an_unreachable_host_stops_a_rollback_before_any_change(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    ran = typed(machines, unreachable=("four",))
    assert (ran.stopped, machines.changed) == ("No hosts remaining!", [])


@pytest.mark.parametrize("line", ['{"run": "1", "ser', "[]", '{"run": 1}', '{"server": "main", "from": "a"}'])
def test_a_line_that_a_power_cut_tore_is_passed_over(line: str) -> None:
    assert list(Change.of(line)) == []


def test_hosts_that_serve_one_model_go_back_together(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--limit` to a part of them would stop all of them, and none could start."""
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    runs: list[list[str]] = []

    def in_part(slices: Any) -> list[Refusal]:
        runs.append([planned.host for planned in slices])
        return [Refusal("changed together", attempt="--limit @fake/one", kind="group-in-part")]

    monkeypatch.setattr(reverting, "groups_in_part", in_part)
    with pytest.raises(Refusal, match="changed together"):
        typed(machines)
    assert (len(runs), machines.changed) == (1, [])
