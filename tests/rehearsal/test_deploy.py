"""From two bare machines to a service, and no changes after it: the project's first guarantee."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rehearsal.machine import Machine
from roles._pyinfra import hold
from tests.rehearsal.conftest import Before, Pair
from tests.rehearsal.operator import Operator, Run

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("number-4")]

# Changes that a dry run must announce, since nothing on a bare machine makes them yet, and that the run may find made.
MAY_BE_DONE_BY_THEN = {
    "Base | Synchronise the clock": "the package starts its service when it is installed",
    "Driver | Load the modules": "the reboot loads them",
    "Driver | Run the persistence daemon": "the package starts its service when it is installed",
    "Docker | Run the daemon with its settings": "the package starts it, with the settings written before",
    "Toolkit | Describe the GPUs for CDI": "the package's own unit does it when it is installed",
    "Model store | Install the fetch program": "asked again after the reboot",
    "Model store | Make the users that receive files": "asked again after the reboot",
    "Model store | Start fetching weights": "asked again after the reboot",
    "Model store | Wait for": "the fetch has ended by itself",
    "Registry | Install the pull program": "asked again after the reboot",
    "Registry | Start the pull": "asked again after the reboot",
    "Registry | Wait for": "the pull has ended by itself",
}
BEGUN = (
    "journalctl --sync; journalctl --quiet --boot=all --unit='enginehouse-pull@*' --unit='enginehouse-weights@*'; true"
)
# The units write these files last. "Finished" in the journal is no proof: systemd 257 drops that line where the journal
# is busy for 10 ms, and the driver's reboot may end a unit that has just finished.
ENDED = "cd /var/lib/enginehouse && find images weights -name '*.json' -o -name manifest.sha256 -o -name '*.begun'"


def test_a_dry_run_writes_nothing(before: Before) -> None:
    assert before.run.code == 0
    # Checksums of a local checkpoint's files, kept so that a later run need not read them again.
    checksums = "sha256.json"
    assert (before.written, before.kept_at_home) == ({"d12": [], "d13": []}, [checksums])


def test_a_first_run_deploys_to_debian_12_and_13_at_once(bare: Pair, first: Run) -> None:
    assert (first.code, first.results["failed_hosts"], first.results["totals"]["error"]) == (0, [], 0)
    assert first.told_of("Triton | Swap in release") == bare.names


def test_every_change_was_announced_by_the_dry_run(before: Before, first: Run) -> None:
    assert {change: name for change, name in first.changed.items() if change not in before.run.announced} == {}


def test_the_run_or_the_units_that_it_started_made_every_announced_change(before: Before, first: Run) -> None:
    left = {name for change, name in before.run.announced.items() if change not in first.changed}
    assert [name for name in sorted(left) if not name.startswith(tuple(MAY_BE_DONE_BY_THEN))] == []


def test_each_machine_rebooted_exactly_once_and_the_run_went_on(deployed: Pair, first: Run) -> None:
    boots = [
        re.findall(r"\b[0-9a-f]{32}\b", machine.run("journalctl --list-boots").stdout) for machine in deployed.both
    ]
    assert [len(ids) for ids in boots] == [2, 2]
    assert first.told_of("Driver | Reboot, confirmed") == deployed.names


def test_image_and_weights_were_both_under_way_before_either_was_waited_for(deployed: Pair, first: Run) -> None:
    """The order of operations is compared, because times of small images and weights prove nothing."""
    order = [op["name"].split(" | ")[1] for op in first.operations if re.match("(Registry|Model store) ", op["name"])]
    started = [place for place, name in enumerate(order) if name.startswith("Start ")]
    awaited = [place for place, name in enumerate(order) if name.startswith(("Wait for", "Send"))]
    assert len(started) >= 2
    assert max(started) < min(awaited)
    for machine in deployed.both:
        assert set(begun(machine)) == {"pull", "weights"}, "what was started ran as units of the host"


def test_image_and_weights_are_recorded_by_the_units_that_brought_them(deployed: Pair) -> None:
    """An image counts too that Docker already had when the driver's reboot interrupted its pull."""
    for machine in deployed.both:
        ended = machine.run(ENDED).stdout.split()
        assert {path.split("/")[0] for path in ended} == {"images", "weights"}
        assert [path for path in ended if path.endswith(".begun")] == []


def begun(machine: Machine) -> list[str]:
    """Returns the kinds of units in the journal: pull, weights."""
    return re.findall(r"enginehouse-(pull|weights)@", machine.run(BEGUN).stdout)


def test_a_second_run_changes_nothing_and_is_gates_alone(operator: Operator, deployed: Pair) -> None:
    again = operator.pyinfra()
    totals = again.results["totals"]
    assert (again.code, again.changed, totals["error"]) == (0, {}, 0)
    assert totals["no_change"] == totals["hosts"] == 2 * len(again.operations) <= 2 * 20
    assert {op["name"].split(" | ")[0] for op in again.operations} == {"Preflight", "Lock", "Host", "Gate"}


def test_a_run_that_ended_leaves_its_time_for_the_next_one(deployed: Pair) -> None:
    """With this time the next run can exclude another run between its questions and its lock, and asks once."""
    for machine in deployed.both:
        assert re.fullmatch(r"ended [0-9.]+", machine.run(f"cat {hold.FILE}").stdout.strip())


def test_a_dry_run_afterwards_announces_nothing(operator: Operator, deployed: Pair) -> None:
    after = operator.pyinfra("--dry")
    assert (after.code, after.announced) == (0, {})


def test_an_unexpected_plan_is_refused_before_any_operation(operator: Operator, deployed: Pair) -> None:
    refused = operator.pyinfra("--data", "expect=plan-0123456789abcdef")
    assert (refused.code, refused.operations) == (1, [])
    assert "this is not the plan that was expected" in refused.output


def test_the_smoke_tests_pass_on_both(operator: Operator, deployed: Pair, tmp_path: Path) -> None:
    report = tmp_path / "smoke.xml"
    words = ("tests/smoke", "--inventory", "inventories/rehearsal.py", f"--junitxml={report}", "-p", "no:cacheprovider")
    ended = operator.python("-m", "pytest", *words)
    assert ended.returncode == 0, ended.stdout
    passed = [case.attrib["name"] for case in ElementTree.parse(report).iter("testcase") if len(case) == 0]
    assert [sum(host in re.split(r"\W", name) for name in passed) >= 30 for host in deployed.names] == [True, True]
