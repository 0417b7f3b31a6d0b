"""A full run at the highest verbosity, and the smoke tests: afterwards no secret is found or was shown.

The use of both secrets needs no separate test: the image's registry and the LLM's repository refuse requests without
them, and the smoke tests ask that LLM.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.secrets.conftest import Story
from tests.secrets.forms import names_in
from tests.secrets.scene import COMMANDS, VARIABLE, Scene
from tests.secrets.watch import HOLDERS

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-5")]

HOLDING_UNITS = ("enginehouse-pull@x", "enginehouse-weights@gpt-oss-tiny", "enginehouse-swap@main", "triton@main")
PERIOD_MS = 50


@pytest.fixture(scope="module")
def host(scene: Scene, story: Story) -> dict[str, Any]:
    """Returns the findings of a search of the whole machine, after all runs."""
    return scene.on_host()


@pytest.fixture(scope="module")
def control(scene: Scene, story: Story) -> dict[str, Any]:
    """Returns the findings of a search of the control machine."""
    return scene.on_control()


def test_the_run_printed_every_message_and_the_service_is_healthy(story: Story) -> None:
    output = story.deployed.stdout + story.deployed.stderr
    assert [word for word in ("enginehouse-pull@", "DEBUG:paramiko") if word not in output] == []
    assert story.smoked.returncode == 0, story.smoked.stdout[-3000:]


def test_every_process_was_sampled_every_50_ms(story: Story) -> None:
    """The mean and the median of the gaps are at most 50 ms; a secret shown for a tenth of a second is found."""
    figures = story.watch.figures
    assert figures["median_ms"] <= PERIOD_MS and figures["samples"] >= figures["seconds"] / 0.05 > 0, str(story.watch)
    assert {("host", "argv"), ("host", "environment")} <= set(story.watch.marked()), str(story.watch)


def test_no_process_showed_a_secret_but_the_operators_own_shell(story: Story) -> None:
    """Children of the control process inherit the operator's variable under its own name; the host never has it."""
    sights = story.watch.sights("side", "where", "variable", "name")
    assert sights == [("control", "environment", VARIABLE, "registry key (plain)")], story.watch.sights("command")


def test_sampled_ssh_and_rsync_processes_have_only_inherited_variables(story: Story) -> None:
    assert {("ssh", VARIABLE), ("rsync", VARIABLE)} <= set(story.watch.sights("command", "variable"))


def test_no_file_journal_inspection_layer_or_unit_of_the_host_holds_secrets(host: dict[str, Any]) -> None:
    assert (host["seen"], host["unread"]) == ([], [])


def test_the_host_was_searched_whole(host: dict[str, Any]) -> None:
    """An unpacked image and a Debian are larger than this; every command except that for dumps had output."""
    silent = [name for name in COMMANDS if not host["said"][name]]
    assert (host["files"] > 10_000, host["bytes"] > 1e9, host["unpacked"] > 0, silent) == (True, True, True, ["dumps"])


def test_no_file_of_the_control_machine_holds_a_secret(control: dict[str, Any]) -> None:
    assert (control["seen"], control["unread"], control["files"] > 0) == ([], [], True)


def test_pyinfra_printed_no_secret(scene: Scene, story: Story) -> None:
    assert names_in("".join(scene.operator.heard), scene.looked_for) == []
    assert story.deployed.stderr in scene.operator.heard


def test_the_test_report_has_no_secret(scene: Scene, story: Story) -> None:
    report = story.report.read_text()
    assert ('testcase classname="tests.smoke' in report, names_in(report, scene.looked_for)) == (True, [])


def test_no_program_with_a_secret_may_leave_a_core(story: Story) -> None:
    """The limits are read from the running processes, including Triton in its container."""
    assert story.watch.figures["cores"] == {program: ["0"] for program in HOLDERS}


@pytest.mark.parametrize("unit", HOLDING_UNITS)
def test_no_unit_with_a_secret_may_leave_a_core(scene: Scene, story: Story, unit: str) -> None:
    limits = scene.machine.run(f"systemctl show -p LimitCORE -p LimitCORESoft {unit}").stdout
    assert limits.splitlines() == ["LimitCORE=0", "LimitCORESoft=0"]


def test_no_process_left_a_core(host: dict[str, Any]) -> None:
    assert (host["cores"], host["said"]["dumps"]) == ([], 0)
