"""A host that the previous version deployed: its units use loose programs; the present units use one package."""

from __future__ import annotations

import runpy
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from deploy.spec import Firewall
from host.superseded_programs import NAMES
from roles import foundation, preflight
from roles._pyinfra.runs import Run as ThisRun
from roles._shipping import places
from roles._shipping.texts import HERE
from roles.triton import swapping
from tests.roles.fake import Ran, run
from tests.roles.plans import a_plan
from tests.roles.triton import test_role

UNITS, HOSTS = places.UNITS, ("@fake/host",)
MINE = replace(test_role.MINE, firewall=Firewall(allow=("10.0.0.0/8",)))
OLD = "0" * 64
"""The digest of a unit of the version before: another one than ours."""
PUBLISHED = "Programs | Publish the programs of the host"
SWITCH = "Undo | Install the program that reverts changes"


@pytest.fixture(autouse=True)
def someone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixes the run's id, user and token, so that tests do not depend on who runs them."""
    monkeypatch.setattr(
        swapping, "this_run", lambda _: ThisRun("20261122-101502-3f9c", "2026-11-22T10:15:02Z", "me@here")
    )
    monkeypatch.setattr(swapping, "token_hex", lambda _: "mine")


def deploy() -> None:
    """deploy.py itself, on a host whose hardware, driver and Docker are right."""
    plan = a_plan(replace(MINE, host=HOSTS[0]))
    with (
        mock.patch("deploy.io.inventory.planned", lambda *_: plan),
        mock.patch.object(preflight, "confirm", lambda _: None),
        mock.patch.object(foundation, "apply", lambda *_, **__: []),
    ):
        runpy.run_path(str(HERE / "deploy.py"))


def brought_over(**options: Any) -> Ran:
    """A deploy to a host whose every unit is the version before's; it has none of our programs."""
    names = ("triton@.service", "enginehouse-swap@.service", "enginehouse-pull@.service",
             "enginehouse-weights@.service", "enginehouse-watch@.service",
             "enginehouse-gpu-state.service", "enginehouse-undo.service",
             "enginehouse-swap@.service.d/52-enginehouse-gate.conf")  # fmt: skip
    served = "release=old\nserver=main\ncurrent=old\nprevious=\nactive=active\nenabled=enabled\nswap=inactive\n"
    answers = test_role.host_answers(
        "\n".join(f"{OLD} 644 root {UNITS}/{name}" for name in names), "key=abc\nproven", served
    )
    return run(
        deploy,
        answers=answers | {"states=active": "triton@main.service", "ssh-ports": "value\tssh-ports\t22"},
        **options,
    )


def test_the_programs_are_published_before_any_unit_names_them() -> None:
    ran = brought_over()
    naming = [step.name for step in ran.steps if any(f"{places.PROGRAMS}/host " in text for text in step.commands)]
    assert naming and ran.operations.index(PUBLISHED) < min(ran.operations.index(name) for name in naming)


def test_the_undo_service_is_installed_before_the_first_change_that_it_may_undo() -> None:
    """If a dry run announced it twice, it would promise a change that no run makes."""
    ran = brought_over()
    watched = [step.name for step in ran.steps if any(" undo save " in text for text in step.commands)]
    assert watched and ran.operations.index(SWITCH) < min(ran.operations.index(name) for name in watched)
    assert (ran.operations.count(SWITCH), brought_over(dry=True).would_change.count(SWITCH)) == (1, 1)


def test_its_server_is_swapped_once() -> None:
    ran = brought_over()
    assert [command for command in ran.commands if "start --no-block enginehouse-swap@" in command] == [
        "{ systemctl reset-failed enginehouse-swap@main.service 2>/dev/null || true; }"
        " && systemctl start --no-block enginehouse-swap@main.service"
    ]


def test_its_server_starts_with_docker_from_then_on() -> None:
    """Before, the server was enabled only for the boot."""
    assert "systemctl enable triton@main.service" in brought_over().commands


def test_every_unit_that_named_a_loose_program_is_replaced() -> None:
    written = "\n".join(brought_over().commands)
    assert f"{places.PROGRAMS}/host " in written
    assert not [line for line in written.splitlines() if line.startswith("Exec") and ".py" in line]


def test_files_of_the_earlier_version_stay_until_the_final_clean_up() -> None:
    """The earlier version's units, which are restored if no login succeeds, need the earlier programs."""
    commands = brought_over().commands
    assert not [name for name in NAMES if any(f"{places.PROGRAMS}/{name}" in command for command in commands)]
