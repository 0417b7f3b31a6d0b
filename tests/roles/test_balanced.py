"""deploy.py and rollback.py with a balancer beside a serving host: each gets its own steps, and both pass the gates."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from roles._pyinfra import undo
from roles._pyinfra.steps import Refuse
from roles._shipping.texts import HERE
from tests.roles.balancer.slices import a_balancer
from tests.roles.fake import Ran, run
from tests.roles.plans import a_plan
from tests.roles.slices import a_slice
from tests.roles.triton import serving, test_role

RUN = {"run": "20261121-080000-bbbb", "server": "main", "result": "serves"}
PLAN = replace(
    a_plan(a_slice(host="@fake/host", servers=(test_role.MAIN,), driver={"manage": False})),
    balancers=(a_balancer(host="@fake/edge"),),
)


def ran(verb: str, also: dict[str, Any] | None = None, **how: Any) -> Ran:
    """A verb on both hosts; refusals of checks are ignored, because the commands have no effect on fake hosts."""
    answers = {
        "id -un": "user=root\nuid=0",
        "ssh-ports": "value\tssh-ports\t22",
        **serving.host_answers(),
        **(also or {}),
    }
    with (
        mock.patch("deploy.io.inventory.planned", lambda *_: PLAN),
        mock.patch.object(Refuse, "_fail", lambda *_: True),
        mock.patch.object(undo, "over_a_new_connection", lambda *_: (True, [])),
        mock.patch("roles.preflight.findings", lambda *_: []),
        mock.patch("time.sleep"),
    ):
        return run(lambda: runpy.run_path(str(HERE / verb)), answers=answers, hosts=("host", "edge"), **how)


@pytest.fixture(scope="module")
def deployed() -> Ran:
    """A whole run of deploy.py."""
    return ran("deploy.py")


def test_a_balancer_gets_haproxy_and_nothing_that_serves(deployed: Ran) -> None:
    names = {step.name.partition(" | ")[0] for step in deployed.on("edge").steps}
    assert names == {"Preflight", "Lock", "Gate", "Removal", "Programs", "Undo", "Base", "Balancer", "Firewall"}


def test_a_host_that_serves_gets_no_haproxy(deployed: Ran) -> None:
    names = {step.name.partition(" | ")[0] for step in deployed.on("host").steps}
    assert "Triton" in names
    assert "Balancer" not in names


def test_all_models_are_checked_only_behind_the_last_gate(deployed: Ran) -> None:
    names = [step.name for step in deployed.on("edge").steps]
    last_gate = max(number for number, name in enumerate(names) if name.startswith("Gate | "))
    assert names.index("Balancer | Write the configuration") < names.index(
        "Gate | Every host has image, weights and engines"
    )
    assert names.index("Balancer | Check every model") > last_gate


def test_the_run_gets_to_its_end(deployed: Ran) -> None:
    assert deployed.stopped == ""
    assert "Cleanup | Remove unneeded images, weights and engines" in deployed.on("host").operations


def test_a_dry_run_and_a_build_know_balancers() -> None:
    assert ran("deploy.py", dry=True).stopped == ran("build.py").stopped == ""


def rolled_back(*history: dict[str, str]) -> Ran:
    """rollback.py on a host with this history."""
    lines = [json.dumps({**RUN, **entry}) for entry in history]
    state = serving.serving(current=history[-1]["release"], more="release=before\nrelease=now\n")
    status = json.dumps({"server": "main", "release": "before", "active": "active", "invocation": "1"})
    return ran("rollback.py", {"history.jsonl": lines, "host tell": status, 'echo "server=$s"': state})


def test_a_balancer_asks_for_no_single_model_before_the_first_host_goes_back() -> None:
    back = rolled_back({"from": "before", "release": "now"})
    names = [step.name for step in back.on("edge").steps]
    assert [name for name in names if not name.startswith("Lock | ")] == [
        "Gate | Every host answers",
        "Balancer | Check servers without their models",
        "Balancer | Apply the configuration",
        "Gate | Every host has its earlier release",
        "Gate | Ask wave 1 of 1",
        "Gate | Wave 1 of 1",
    ]
    assert f"Triton | Revert run {RUN['run']} on main" in back.on("host").operations


def test_a_balancer_is_left_alone_where_nothing_goes_back() -> None:
    taken_back = {"from": "now", "release": "before", "run": "20261122-080000-cccc", "back": RUN["run"]}
    again = rolled_back({"from": "before", "release": "now"}, taken_back)
    assert (again.stopped, [step.name for step in again.steps if step.name.startswith("Balancer")]) == ("", [])
