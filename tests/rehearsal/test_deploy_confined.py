"""On both serving machines: an attacker in place of a fetch gets one directory and no secret."""

from __future__ import annotations

import pytest

from rehearsal.machine import Machine
from tests.rehearsal import intruder
from tests.rehearsal.conftest import Pair

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("number-4")]

WEIGHTS, USER = "/var/lib/enginehouse/weights", "enginehouse-fetch"
UNIT = "enginehouse-weights@minilm.service"
OWN, OTHER = f"{WEIGHTS}/minilm/.intruder.partial", f"{WEIGHTS}/other/.intruder.partial"
TOKEN, OTHER_TOKEN = "/run/enginehouse/weights/minilm/token", "/run/enginehouse/weights/other/token"
"""Tokens of this unit and of another model's fetch, which runs at the same time as the same user."""
SCENE = f"""
install -d -m 0755 {WEIGHTS}/other
install -d -m 0700 -o {USER} -g {USER} {OWN} {OTHER} {TOKEN.rpartition("/")[0]} {OTHER_TOKEN.rpartition("/")[0]}
touch {OTHER}/half {TOKEN} {OTHER_TOKEN}
chown {USER}: {OTHER}/half {TOKEN} {OTHER_TOKEN}
chmod 0600 {OTHER}/half {TOKEN} {OTHER_TOKEN}
"""
CLEARED = f"rm -rf {WEIGHTS}/other {OWN} {TOKEN.rpartition('/')[0]} {OTHER_TOKEN.rpartition('/')[0]}"


@pytest.fixture(params=["d12", "d13"])
def machine(request: pytest.FixtureRequest, deployed: Pair) -> Machine:
    """Returns Debian 12 or 13, deployed to."""
    named: Machine = getattr(deployed, request.param)
    return named


def test_an_attacker_in_a_fetch_reaches_one_directory_and_no_secret(machine: Machine) -> None:
    """A fetch reads public files and its own: settings, token and files of its model."""
    machine.run(SCENE)
    try:
        done = intruder.in_unit(machine, UNIT, OWN, OTHER, f"{WEIGHTS}/minilm")
    finally:
        machine.run(CLEARED)
    own = ("/etc/enginehouse/weights/minilm.json", "/etc/enginehouse/hub-ca.crt", f"{WEIGHTS}/minilm/", TOKEN)
    assert [path for path in done.reads if not path.startswith(own)] == []
    assert (done.writes, done.connects, done.becomes) == ([OWN], [], [])


def test_files_of_a_fetch_belong_to_root_and_its_user_has_no_login(machine: Machine) -> None:
    owners = machine.run(f"find {WEIGHTS} -printf '%u %y %m\\n' | sort -u").stdout.split("\n")
    assert set(filter(None, owners)) == {"root d 755", "root f 644"}
    assert machine.run(f"ps -o pid= -u {USER} || true").stdout == ""


def test_an_attacker_in_a_pull_writes_only_this_project_s_directories(machine: Machine) -> None:
    """The pull has Docker's socket, and so in effect root; its own writes are still confined."""
    name = machine.run("ls /etc/enginehouse/pull").stdout.split()[0].removesuffix(".json")
    done = intruder.in_unit(machine, f"enginehouse-pull@{name}.service")
    assert [path for path in done.writes if not path.startswith(("/var/lib/enginehouse", "/run/enginehouse"))] == []
