"""Free texts of an inventory reach a host as strings of JSON, and no shell reads them."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from deploy.inventory.fleet import Fleet
from deploy.planning.plan import Plan, make_plan
from deploy.spec import Docker, Driver, EngineStore, EngineTrust, Gateway, Replay
from roles._pyinfra import undo
from roles._pyinfra.steps import Refuse
from roles._shipping.texts import HERE
from roles.engines.building import settings_text
from roles.gateway.settings import rendered
from tests.roles.fake import Heard, Ran, run
from tests.unit.samples import AROUND, GPT_OSS, LLAMA, MACHINE, MAIN, Source

LINE = "x\";`touch ran`$(touch ran)' %h ${IFS} {{7*7}}"
ALIAS = LINE.replace(";", "&")
"""The hostile line as an alias, without its semicolon: that separates names in a key's list and is refused in an
alias."""
MARK = "touch ran"


@pytest.fixture(scope="module")
def heard() -> list[Heard]:
    """All commands of deploy.py to a bare host whose inventory is full of hostile lines."""
    plan = planned(docker=Docker(daemon={LINE: LINE}), gateway=Gateway(aliases={ALIAS: GPT_OSS.name}))
    with (
        mock.patch("deploy.io.inventory.planned", lambda *_: plan),
        mock.patch.object(Refuse, "_fail", lambda *_: True),
        mock.patch.object(undo, "over_a_new_connection", lambda *_: (True, [])),
        mock.patch("roles.preflight.findings", lambda *_: []),
        mock.patch("time.sleep"),
    ):
        ran: Ran = run(
            lambda: runpy.run_path(str(HERE / "deploy.py")),
            answers={"id -un": "user=root\nuid=0", "ssh-ports": "value\tssh-ports\t22"},
        )
    assert "Triton | Swap" in "".join(ran.log), "the run came to its last steps"
    return ran.shell["host"]


def test_no_command_has_a_hostile_line_outside_quotes(heard: list[Heard]) -> None:
    bare = [re.sub(r"'[^']*'", "", command.command) for command in heard]
    assert [command for command in bare if MARK in command] == []


def test_a_hostile_line_is_a_string_in_docker_s_file(heard: list[Heard]) -> None:
    (content,) = [command.stdin for command in heard if "daemon.json" in command.command and MARK in command.stdin]
    assert json.loads(content)[LINE] == LINE


def test_a_hostile_line_is_a_string_in_the_gateway_s_file() -> None:
    mine = planned(gateway=Gateway(aliases={ALIAS: GPT_OSS.name})).slices[0]
    assert mine.gateway
    assert ALIAS in json.loads(rendered(mine, mine.gateway))["aliases"]


def test_the_reason_for_not_judging_an_engine_is_in_no_build_file() -> None:
    model = replace(LLAMA, path="engine", replay=Replay.none(reason=LINE))
    trust = {"engine_trust": EngineTrust(key="keys/engines"), "engine_store": EngineStore.directory("engines")}
    mine = planned(servers=(replace(MAIN, models=(model,)),), **trust).slices[0]
    assert mine.engines[0].unjudged == LINE
    assert MARK not in settings_text(mine.engines[0], mine)


def planned(**data: Any) -> Plan:
    """The plan of one host."""
    good = {"machine": MACHINE, "servers": (MAIN,), "release": "26.07", "driver": Driver(manage=False), "gateway": None}
    return make_plan(Fleet.of([Source("@fake/host", good | data)]), AROUND)
