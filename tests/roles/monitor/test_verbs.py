"""The verbs with a monitor beside a serving host: each gets its own steps, and both pass the gates."""

from __future__ import annotations

import runpy
from dataclasses import replace
from unittest import mock

import pytest

from roles._pyinfra import undo
from roles._pyinfra.steps import Refuse
from roles._shipping.texts import HERE
from tests.roles.fake import Ran, run
from tests.roles.monitor.plans import a_monitor, watched
from tests.roles.plans import a_plan
from tests.roles.slices import a_slice
from tests.roles.triton import serving, test_role

SERVES = a_slice(host="@fake/host", servers=(test_role.MAIN,), driver={"manage": False})
PLAN = replace(
    a_plan(replace(SERVES, exporters=watched().for_host("a").exporters)),
    monitors=(replace(a_monitor(), host="@fake/eyes"),),
)


def ran(verb: str, dry: bool = False) -> Ran:
    """A verb on both hosts; refusals of checks are ignored, because the commands have no effect on fake hosts."""
    answers = {"id -un": "user=root\nuid=0", "ssh-ports": "value\tssh-ports\t22", **serving.host_answers()}
    with (
        mock.patch("deploy.io.inventory.planned", lambda *_: PLAN),
        mock.patch.object(Refuse, "_fail", lambda *_: True),
        mock.patch.object(undo, "over_a_new_connection", lambda *_: (True, [])),
        mock.patch("roles.preflight.findings", lambda *_: []),
        mock.patch("time.sleep"),
    ):
        return run(lambda: runpy.run_path(str(HERE / verb)), answers=answers, hosts=("host", "eyes"), dry=dry)


@pytest.fixture(scope="module")
def deployed() -> Ran:
    """A whole run of deploy.py."""
    return ran("deploy.py")


def test_a_monitor_gets_only_its_own_packages(deployed: Ran) -> None:
    parts = {name.partition(" | ")[0] for name in deployed.on("eyes").operations}
    assert parts == {
        *("Preflight", "Lock", "Gate", "Removal", "Programs", "Undo", "Base", "Firewall"),
        *("Exporters", "Monitor"),
    }


def test_a_monitor_learns_of_hosts_behind_the_last_gate_and_a_host_shows_itself_there(deployed: Ran) -> None:
    for name, last in (("eyes", "Monitor | Run the services"), ("host", "Exporters | Run the exporters")):
        names = deployed.on(name).operations
        gates = [place for place, operation in enumerate(names) if operation.startswith("Gate | ")]
        assert names.index(last) > max(gates)


def test_a_host_closes_its_pages_before_it_shows_them(deployed: Ran) -> None:
    names = deployed.on("host").operations
    assert names.index("Firewall | Load the rules, confirmed") < names.index("Exporters | Run the exporters")


@pytest.mark.parametrize("verb", ["build.py", "remove.py"])
def test_the_other_verbs_know_monitors(verb: str) -> None:
    assert ran(verb).stopped == ""


def test_a_dry_run_gets_to_its_end() -> None:
    assert ran("deploy.py", dry=True).stopped == ""
