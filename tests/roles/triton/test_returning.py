"""rollback.py on hosts that do not exist: one run is taken back on exactly the hosts it changed, once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyinfra import state

from deploy.edge import inventory
from deploy.errors import Refusal
from deploy.plan import Plan
from roles.triton.past import Change
from tests.roles.fake import Ran, run
from tests.roles.slices import SERVER, a_slice

VERB = compile((Path(__file__).parents[3] / "rollback.py").read_text("utf-8"), "rollback.py", "exec")
NAMES = ("one", "two", "three", "four")
FIRST, SECOND, THIRD = "20261120-080000-aaaa", "20261121-080000-bbbb", "20261122-080000-cccc"


class Machines:
    """Hosts with a history; a swap that is asked for is made, and remembered."""

    def __init__(self) -> None:
        self.current = dict.fromkeys(NAMES, "")
        self.history: dict[str, list[str]] = {name: [] for name in NAMES}
        self.releases = {"a", "b", "c"}
        self.does_not_serve: set[str] = set()
        self.changed: list[str] = []

    def serves(self, name: str, release: str, **told: Any) -> None:
        """A swap that ended well."""
        entry = {"server": "main", "from": self.current[name], "release": release, "result": "serves", **told}
        self.history[name].append(json.dumps(entry))
        self.current[name] = release

    def deployed(self, run_id: str, release: str, names: Sequence[str] = NAMES) -> None:
        """A run of deploy.py that changed these hosts."""
        for name in names:
            self.serves(name, release, run=run_id, plan="77aa", who="ada@desk", wave=1)

    def swap(self, name: str) -> str:
        """The host does what it was told in wanted.json."""
        heard = state.inventory.get_host(f"@fake/{name}").connector.heard
        wanted = json.loads(next(each.stdin for each in reversed(heard) if "wanted.json" in each.command))
        self.changed.append(name)
        if name not in self.does_not_serve:
            self.serves(name, wanted["release"], **{key: wanted[key] for key in ("run", "wave", "who", "plan", "back")})
        return ""

    def answers(self, name: str) -> dict[Any, Any]:
        """What a host says and does."""

        def serving(_: str) -> str:
            here = "".join(f"release={each}\n" for each in sorted(self.releases))
            return f"{here}server=main\ncurrent={self.current[name]}\nprevious=\nactive=active\nenabled=enabled"

        return {
            "history.jsonl": lambda _: self.history[name],
            'echo "server=$s"': serving,
            "/verdict.json": lambda _: json.dumps({"release": self.current[name], "asked": "another", "sentence": ""}),
            "systemctl start --no-block enginehouse-swap@main": lambda _: self.swap(name),
        }


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Four hosts in three waves, on which nothing was ever deployed."""
    slices = tuple(replace(a_slice(servers=(SERVER,)), host=f"@fake/{name}") for name in NAMES)
    waves = tuple(tuple(f"@fake/{name}" for name in wave) for wave in (NAMES[:1], NAMES[1:3], NAMES[3:]))
    plan = Plan(slices=slices, waves=waves, digest="5151")
    monkeypatch.setattr(inventory, "planned", lambda *_: plan)
    return Machines()


def typed(machines: Machines, asked: str = "", **how: Any) -> Ran:
    """rollback.py, typed."""
    machines.changed.clear()

    def verb() -> None:
        exec(VERB, {"__name__": "rollback"})

    answers = {name: machines.answers(name) for name in NAMES}
    return run(verb, hosts=NAMES, answers=answers, data={"run": asked} if asked else {}, **how)


def test_the_last_run_is_taken_back_on_exactly_the_hosts_it_changed(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("four", "two"))
    ran = typed(machines)
    assert (ran.failed_hosts, machines.changed) == ((), ["two", "four"])
    assert set(machines.current.values()) == {"a"}
    assert [name for name in ran.operations if name.startswith("Gate | Wave")][-1] == "Gate | Wave 2 of 2"


def test_its_waves_are_the_plan_s(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    typed(machines)
    assert [set(machines.changed[:1]), set(machines.changed[1:3]), set(machines.changed[3:])] == [
        {"one"},
        {"two", "three"},
        {"four"},
    ]


def test_the_history_says_which_run_in_which_wave_took_back_which(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    typed(machines)
    lines = [json.loads(machines.history[name][-1]) for name in NAMES]
    assert [(line["wave"], line["back"]) for line in lines] == [(1, SECOND), (2, SECOND), (2, SECOND), (3, SECOND)]
    assert len({line["run"] for line in lines}) == 1 and lines[0]["run"] > SECOND


def test_typed_twice_it_does_nothing_and_says_so(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("one", "two"))
    typed(machines)
    again = typed(machines)
    assert (again.failed_hosts, again.changed, machines.changed) == ((), (), [])
    said = "\n".join(again.told)
    assert f"run {SECOND} is taken back on @fake/one, @fake/two already: there is nothing to do" in said
    assert f"{FIRST}  ada@desk, @fake/four, @fake/one, @fake/three, @fake/two, plan 77aa" in said


def test_the_run_before_is_taken_back_by_its_name(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.deployed(THIRD, "c", ("two",))
    typed(machines)
    assert (typed(machines, SECOND).failed_hosts, set(machines.current.values())) == ((), {"a"})


def test_taking_back_a_taking_back_goes_forward_again(machines: Machines) -> None:
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
    assert (machines.changed, f"run {THIRD} is taken back on @fake/one, @fake/two already" in str(named.told)) == (
        [],
        True,
    )
    assert (typed(machines).failed_hosts, set(machines.current.values())) == ((), {"a"})


def test_of_a_run_that_its_own_gate_took_back_in_part_the_rest_goes_back(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("one", "two"))
    machines.serves("two", "a", run=SECOND, plan="77aa", who="ada@desk", wave=2, back=SECOND)
    assert (typed(machines).failed_hosts, machines.changed) == ((), ["one"])


def test_a_run_after_which_another_came_is_refused_for_all_hosts_at_once(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.deployed(THIRD, "c", ("two", "four"))
    with pytest.raises(Refusal) as refused:
        typed(machines, SECOND)
    assert (str(refused.value).startswith("2 problems"), machines.changed) == (True, [])
    assert (
        f"@fake/four: run {SECOND} cannot be taken back on main\n"
        f"  why    since then c is current, which run {THIRD} brought\n"
        "  try    take back the later run first, or leave the host out (--limit), or change the inventory and deploy\n"
        "  state  nothing was changed on any host"
    ) in str(refused.value)


def test_an_unknown_run_is_refused_and_the_last_ones_are_listed(machines: Machines) -> None:
    for number in range(1, 8):
        machines.deployed(f"2026112{number}-080000-aaaa", "ab"[number % 2], ("one",))
    with pytest.raises(Refusal) as refused:
        typed(machines, "20250101-000000-0000")
    assert (
        "no host remembers a run 20250101-000000-0000\n"
        "  run 1  20261127-080000-aaaa  ada@desk, @fake/one, plan 77aa\n"
        "  run 2  20261126-080000-aaaa"
    ) in str(refused.value)
    assert "20261122" not in str(refused.value) and refused.value.attempt == "--data run=20261127-080000-aaaa"


def test_hosts_that_remember_no_run_have_none_to_take_back(machines: Machines) -> None:
    machines.serves("one", "a", plan="77aa")  # by a version that wrote no run
    with pytest.raises(Refusal, match="no host remembers a run that changed what it serves"):
        typed(machines)


def test_the_first_release_of_a_host_has_no_way_back(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    with pytest.raises(Refusal, match="nothing served there before that run"):
        typed(machines)


def test_a_release_that_is_gone_has_no_way_back(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.releases.remove("a")
    with pytest.raises(Refusal, match="release a is no longer on the host"):
        typed(machines)


def test_stopped_half_way_it_is_typed_again(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    machines.does_not_serve = {"two"}
    stopped = typed(machines)
    assert (stopped.stopped, machines.current) == (
        "No hosts remaining!",
        {"one": "a", "two": "b", "three": "a", "four": "b"},
    )
    machines.does_not_serve = set()
    assert (typed(machines).failed_hosts, machines.changed) == ((), ["two", "four"])
    assert set(machines.current.values()) == {"a"}


def test_dry_says_what_would_change_and_changes_nothing(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("two",))
    ran = typed(machines, dry=True)
    assert (ran.would_change, machines.changed) == ((f"Triton | Take back run {SECOND} on main",), [])
    assert f"takes back run {SECOND}: main from b to a on @fake/two" in ran.told
    assert "it does not undo: driver, Docker" in str(ran.told)


def test_without_change_detection_it_does_the_same(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b", ("two",))
    assert (typed(machines, detect_changes=False).failed_hosts, machines.changed) == ((), ["two"])


def test_what_changes_after_it_was_looked_at_is_left_alone(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking and the lock another run may have come."""
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
            said = str(swap(name)['echo "server=$s"'](command))
            return said if state.is_executing else said.replace("current=c", "current=b")

        return {**swap(name), "history.jsonl": come, 'echo "server=$s"': serving}

    monkeypatch.setattr(machines, "answers", answers)
    ran = typed(machines)
    assert ("two" in ran.failed_hosts, machines.changed) == (True, [])
    assert "since then c is current" in str(ran.told)


def test_a_host_that_cannot_be_asked_stops_it_before_anything_changes(machines: Machines) -> None:
    machines.deployed(FIRST, "a")
    machines.deployed(SECOND, "b")
    ran = typed(machines, unreachable=("four",))
    assert (ran.stopped, machines.changed) == ("No hosts remaining!", [])


@pytest.mark.parametrize("line", ['{"run": "1", "ser', "[]", '{"run": 1}', '{"server": "main", "from": "a"}'])
def test_a_line_that_a_power_cut_tore_is_passed_over(line: str) -> None:
    assert list(Change.of(line)) == []
