"""A swap of a server with an LLM beside its Triton: both units in one transaction, and put back together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from host import places, server
from tests.roles.triton.swapping import FakeHost

UNITS = ["triton@main.service", "llm@main.service"]


class Host(FakeHost):
    """A host with the LLM's unit, whose LLM answers in some of the releases with an LLM."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, monkeypatch)
        self.orders: list[tuple[str, ...]] = []
        self.units |= {f"llm@{name}.service": "inactive" for name in ("main", "old", "aux")}
        self.answering = set[str]()
        (root / "units").mkdir()
        (root / "units/llm@.service").touch()
        monkeypatch.setattr(places, "UNITS", root / "units")
        monkeypatch.setattr(server.systemd, "show", lambda unit, *properties: self.show(unit, *properties))

    def systemctl(self, *arguments: str) -> None:
        """systemctl of a host; the LLM's unit becomes active if its program answers, and is skipped without one."""
        super().systemctl(*arguments)
        self.orders.append(arguments)
        if arguments[0] == "start" and UNITS[1] in arguments:
            current = self.link("current")
            if not (self.root / "releases" / current / "llm/run").exists():
                self.units[UNITS[1]] = "inactive"
            else:
                self.units[UNITS[1]] = "active" if current in self.answering else "failed"

    def add_llm(self, release: str, port: int = 8010, answers: bool = True) -> None:
        """Adds an LLM beside Triton to the release."""
        folder = self.root / "releases" / release / "llm"
        folder.mkdir()
        (folder / "run").write_text(f"  --publish 127.0.0.1:{port}:{port}\n  --device nvidia.com/gpu=0\n")
        self.answering |= {release} if answers else set()

    @property
    def states(self) -> tuple[str, str]:
        """The states of both units."""
        return self.units[UNITS[0]], self.units[UNITS[1]]

    def order(self, verb: str) -> list[str]:
        """The units that were started or stopped, in order."""
        return [word for words in self.orders if words[0] == verb for word in words if "@main" in word]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Releases one and two have an LLM that answers; the LLM of three never answers; four has no LLM."""
    made = Host(tmp_path, monkeypatch)
    for release in ("one", "two", "three", "four"):
        made.publish(release)
    for release in ("one", "two", "three"):
        made.add_llm(release, answers=release != "three")
    return made


def test_triton_starts_first_and_the_llm_after_it(machine: Host) -> None:
    """Encoders take their memory before the LLM takes its cache."""
    assert (machine.ask("one"), machine.states) == (0, ("active", "active"))
    assert machine.order("start") == UNITS


def test_a_swap_stops_both_and_brings_both(machine: Host) -> None:
    machine.ask("one")
    machine.orders.clear()
    assert (machine.ask("two"), machine.links, machine.states) == (0, ("two", "one"), ("active", "active"))
    assert [words for words in machine.orders if words[0] == "stop"] == [("stop", *UNITS)]


def test_an_llm_that_never_answers_puts_both_containers_back(machine: Host) -> None:
    machine.ask("one")
    assert (machine.ask("three"), machine.links, machine.states) == (1, ("one", ""), ("active", "active"))
    assert machine.verdict["sentence"] == "three does not serve; one is put back and serves"


def test_the_verdict_has_the_reason_of_the_llm(machine: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's own proof only reports that Triton serves, which does not explain the failure."""
    machine.ask("one")
    start = machine.systemctl

    def systemctl(*arguments: str) -> None:
        start(*arguments)
        if arguments[0] == "start" and UNITS[1] in arguments and machine.link("current") == "three":
            proof = {"ok": False, "release": "three", "reason": "llama answers its first prompt with 400: no"}
            (machine.root / "servers/main/proof-llm.json").write_text(json.dumps(proof))

    monkeypatch.setattr(machine, "systemctl", systemctl)
    machine.ask("three")
    assert "llama answers its first prompt with 400: no" in json.dumps(machine.verdict)


def test_a_release_without_an_llm_takes_its_place_and_gives_it_back(machine: Host) -> None:
    machine.ask("one")
    assert (machine.ask("four"), machine.states) == (0, ("active", "inactive"))
    assert (machine.ask("two"), machine.states) == (0, ("active", "active"))


def test_a_first_release_with_a_silent_llm_is_stopped(machine: Host) -> None:
    assert (machine.ask("three"), machine.links, machine.states) == (1, ("", ""), ("inactive", "inactive"))


def test_a_swap_to_the_serving_release_starts_only_the_stopped_llm(machine: Host) -> None:
    """Triton's clients notice nothing."""
    machine.ask("one")
    machine.units[UNITS[1]] = "failed"
    machine.orders.clear()
    assert (machine.ask("one"), machine.states) == (0, ("active", "active"))
    assert machine.order("stop") == []


def test_a_cut_swap_is_undone_and_both_units_are_started_again(machine: Host) -> None:
    machine.ask("one")
    machine.cut("one", "two")
    machine.orders.clear()
    assert (machine.call("undo"), machine.links) == (0, ("one", ""))
    assert [words for words in machine.orders if words[0] in ("start", "stop")] == [
        ("stop", *UNITS),
        ("start", "--no-block", *UNITS),
    ]


def test_the_llm_s_port_and_card_are_taken_too(machine: Host) -> None:
    """A server under another name that holds the port or the card is stopped."""
    assert server.takes("one") == {"8000", "8010", "nvidia.com/gpu=0"}


def test_answers_of_both_are_compared_with_the_release_before(machine: Host) -> None:
    machine.ask("one")
    for file, model in (("proof.json", "bge"), ("proof-llm.json", "llama")):
        proof = {"ok": True, "reason": "", "release": "one", "answers": {model: 0.5}}
        (machine.root / "servers/main" / file).write_text(json.dumps(proof))
    assert server.Server("main").answers("one") == {"bge": 0.5, "llama": 0.5}
