"""`enginehouse drift` only reads: exit status 0 without differences, 2 with some, 1 if it could not ask."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from deploy.io import doctor as edge_doctor
from deploy.io.drift import drift_of
from deploy.refusals.errors import Refusal
from deploy.rollout.drift import Drift

ROOT = Path(__file__).parents[2]
SAME = Drift(("one", "two"))
DIFFERS = Drift(("one", "two"), {"Docker | Merge daemon.json": ("two",), "Triton | Swap in release 1": ("one", "two")})
LOST = Drift(("one", "two", "three"), {"Docker | Merge": ("two",)}, ("one",), {"one": ("Could not connect",)})

VERB = """
from pyinfra import host
from pyinfra.operations import server
from pyinfra.facts.server import Command
from roles import rollout
from roles._pyinfra import lock
lock.take("5151")
rollout.gate([host.name, "@fake/one", "far"], name="Gate | All")
if host.get_fact(Command, "right?") != "yes":
    server.shell("mend it", name="Work | Mend it")
"""
INVENTORY = """
_held = ["held", '{"who": "ada@desk", "since": "today", "plan": "77aa", "run": "1"}']
right = (["@fake/one", "@fake/two"], {"fake_delay": 0, "fake_delay_jitter": 0, "fake_responses": {"right?": "yes"}})
wrong = (["@fake/three"], {"fake_delay": 0, "fake_delay_jitter": 0, "fake_responses": {"flock -ns": _held}})
away = (["far"], {"ssh_hostname": "127.0.0.1", "ssh_port": 1})
"""


@pytest.mark.parametrize(("drift", "code"), [(SAME, 0), (DIFFERS, 2), (LOST, 1), (Drift((), stopped="no"), 1)])
def test_the_exit_code_says_it(drift: Drift, code: int) -> None:
    assert drift.exit_code == code


def test_drift_names_the_differences_of_each_host() -> None:
    assert str(DIFFERS) == (
        "differ: 2 of 2 hosts\n  Docker | Merge daemon.json  two\n  Triton | Swap in release 1  one, two"
    )


def test_unreachable_hosts_are_named_with_the_reason() -> None:
    assert str(LOST) == (
        "differ: 1 of 3 hosts\n"
        "  Docker | Merge  two\n"
        "as the inventory says: 1 of 3 hosts\n"
        "could not be asked: one\n"
        "one:\n"
        "  Could not connect"
    )


def test_two_hundred_hosts_that_differ_alike_are_one_line() -> None:
    names = tuple(f"h{number}" for number in range(200))
    assert str(Drift(names, {"Step": names})).endswith("h6, h7 and 192 more")


def test_equal_messages_of_several_hosts_are_printed_once() -> None:
    assert str(Drift(("a", "b"), unasked=("a", "b"), messages={"a": ("no",), "b": ("no",)})).endswith("a, b:\n  no")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A minimal verb, and an inventory: two hosts as planned, a host that differs, and an unreachable host."""
    folder = tmp_path_factory.mktemp("drift")
    (folder / "verb.py").write_text(VERB)
    (folder / "inventory.py").write_text(INVENTORY)
    return folder / "verb.py", str(folder / "inventory.py")


def test_hosts_as_they_should_be_do_not_differ(files: tuple[Path, str]) -> None:
    drift = drift_of(files[1], limit=["right"], verb=files[0])
    assert (drift.exit_code, drift.hosts, drift.messages) == (0, ("@fake/one", "@fake/two"), {})


def test_a_differing_host_is_named_with_its_step_and_the_running_deploy(files: tuple[Path, str]) -> None:
    drift = drift_of(files[1], limit=["right", "wrong"], verb=files[0])
    assert (drift.exit_code, drift.steps) == (2, {"Work | Mend it": ("@fake/three",)})
    assert "held by ada@desk" in drift.messages["@fake/three"][0]


def test_a_host_that_is_away_could_not_be_asked_and_the_others_are(files: tuple[Path, str]) -> None:
    """The gate, which would stop the other hosts, does not count as a difference of those hosts."""
    drift = drift_of(files[1], verb=files[0])
    assert (drift.exit_code, drift.unasked, drift.differing) == (1, ("far",), ("@fake/three",))
    assert "Could not connect" in drift.messages["far"][0]
    assert drift_of(files[1], limit=["away"], verb=files[0]).unasked == ("far",)


def test_a_verb_that_refuses_to_begin_is_reported(files: tuple[Path, str], tmp_path: Path) -> None:
    verb = tmp_path / "verb.py"
    verb.write_text('from deploy.refusals.errors import Refusal\nraise Refusal("no such machine", attempt="another")\n')
    drift = drift_of(files[1], limit=["right"], verb=verb)
    assert (drift.exit_code, drift.stopped.splitlines()[0]) == (1, "no such machine")


def test_a_verb_that_breaks_is_no_sign_that_nothing_differs(files: tuple[Path, str], tmp_path: Path) -> None:
    (verb := tmp_path / "verb.py").write_text("1 / 0\n")
    with pytest.raises(Refusal, match="the hosts could not be asked"):
        drift_of(files[1], limit=["right"], verb=verb)


FINDS = """
from pyinfra import host
from roles._pyinfra.events import emit
findings = {"hole-known": "runc 1.3.2: CVE-2025-31133", "drift": "1 steps", "toolkit-old": "1.17.8"}
emit(host.name, findings=[{"id": id, "evidence": text} for id, text in findings.items() if host.name.endswith("one")])
"""


def test_a_known_hole_that_the_doctor_finds_is_a_warning_of_drift(
    files: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor's other findings are not warnings, and the exit code counts only the differences."""
    (doctor := tmp_path / "doctor.py").write_text(FINDS)
    monkeypatch.setattr(edge_doctor, "drift_of", partial(drift_of, verb=files[0]))
    drift = edge_doctor.drift_with_holes(files[1], limit=["right"], verb=doctor)
    assert (drift.exit_code, drift.warnings) == (0, {"@fake/one": ("runc 1.3.2: CVE-2025-31133", "1.17.8")})


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    """`enginehouse drift …` in the repository."""
    command = [sys.executable, "-m", "deploy", "drift", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_an_unreachable_host_ends_the_command_with_status_1(tmp_path: Path) -> None:
    text = (ROOT / "inventories/h100.py").read_text().replace('["h100-01.example.internal"]', '["127.0.0.1"]')
    (tmp_path / "fleet.py").write_text(text)
    done = typed(str(tmp_path / "fleet.py"), "--json", "--data", "ssh_port=1")
    assert (done.returncode, json.loads(done.stdout)["not_asked"]) == (1, ["127.0.0.1"])


def test_a_refused_inventory_contacts_no_host() -> None:
    done = typed("inventories/h100.py", "--data", "release=24.08")
    assert (done.returncode, "planning; no host was changed" in done.stderr) == (1, True)


def test_known_holes_are_warnings_and_no_difference() -> None:
    holes = {"one": ("runc 1.3.2: CVE-2025-31133",), "two": ("runc 1.3.2: CVE-2025-31133",)}
    drift = Drift(("one", "two"), warnings=holes)
    assert drift.exit_code == 0
    assert str(drift) == "as the inventory says: 2 of 2 hosts\nwarning: runc 1.3.2: CVE-2025-31133: one, two"
    assert drift.to_json()["warnings"] == {name: list(lines) for name, lines in holes.items()}
