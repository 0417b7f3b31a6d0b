"""A machine whose only exit is an HTTP proxy with a login is deployed to, without a leak of the password.

The tests share a machine with services and a proxy and run in pytest's order: refused by preflight while the proxy is
away, deployed, examined, deployed again, and finally without the proxy.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from rehearsal import machines, network, requirements
from rehearsal.machine import Machine
from rehearsal.network import Network
from rehearsal.places import REPOSITORY, Places
from tests.rehearsal.forward_proxy import PASSWORD, PORT, ForwardProxy, forward_proxy
from tests.rehearsal.operator import Operator

NUMBER = 18
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-18")]

PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
INVENTORY = "tests/rehearsal/inventories/proxy.py"
REGISTRY = "registry.rehearsal.internal"
FILES = "/etc/enginehouse/proxy/environment /etc/enginehouse/proxy/docker /etc/apt/apt.conf.d/52enginehouse-proxy"
SHOWN = (
    "systemctl show docker 'enginehouse-*' containerd; docker info; docker ps -aq | xargs -r docker inspect;"
    " journalctl --no-pager -o cat -b; cat /etc/systemd/system/*/52-enginehouse-proxy.conf;"
    " cat /etc/enginehouse/proxy/wanted.json /etc/docker/daemon.json; ps axww -o args"
)


@dataclass
class Story:
    """The machine, its operator, and its proxy."""

    machine: Machine
    operator: Operator
    proxy: ForwardProxy


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Yields a bare machine that reaches only its proxy; removes it before and afterwards."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    home = PLACES.root / "home"
    operator = Operator(PLACES.number, PLACES.root / "operator.log", home)
    machines.down(PLACES)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    operator.log.unlink(missing_ok=True)
    (PLACES.root / "proxy_password").write_text(f"{PASSWORD}\n")
    try:
        (machine,) = machines.up(["d12x"], "12", places=PLACES)
        assert operator.python("-m", "rehearsal.services", "up").returncode == 0
        with forward_proxy(Network(PLACES.number).bridge_address) as proxy:
            network.cut_off(Network(NUMBER), PORT)
            yield Story(machine, operator, proxy)
    finally:
        network.reconnect(Network(NUMBER))
        machines.down(PLACES)
        operator.python("-m", "rehearsal.services", "down")


def test_the_machine_has_no_way_out_of_its_own(story: Story) -> None:
    tried = story.machine.run(f"timeout 5 bash -c '</dev/tcp/{REGISTRY}/443'", check=False)
    assert tried.returncode != 0


def test_preflight_tells_that_the_proxy_is_not_there(story: Story) -> None:
    """The refusal comes before the first change, and names the target of the proxied request."""
    network.cut_off(Network(NUMBER))
    try:
        run = story.operator.pyinfra(inventory=INVENTORY)
    finally:
        network.cut_off(Network(NUMBER), PORT)
    assert (run.code != 0, run.changed) == (True, {})
    assert f"the proxy does not connect to {REGISTRY}:" in run.output


def test_it_is_deployed_to_through_the_proxy(story: Story) -> None:
    """apt, the daemon and the unit that fetches weights each used the login."""
    run = story.operator.pyinfra(inventory=INVENTORY)
    assert run.code == 0, run.output[-4000:]
    assert {REGISTRY, story.proxy.address} <= story.proxy.known("CONNECT"), "image, and the weights of the hub"
    assert "apt.rehearsal.internal" in story.proxy.known("GET")


def test_only_files_of_root_hold_the_password(story: Story) -> None:
    written = quote(PASSWORD, safe="")
    modes = story.machine.run(f"stat -c '%a %U' {FILES}").stdout.split("\n")[:3]
    assert modes == ["600 root"] * 3
    assert all(written in text for text in story.machine.run(f"cat {FILES}; true").stdout.split("// end")[:1])
    shown = story.machine.run(SHOWN, check=False).stdout
    assert "EnvironmentFiles=/etc/enginehouse/proxy/docker" in shown
    plan = story.operator.python("-m", "deploy", "plan", INVENTORY, "--json").stdout
    for text in (shown, plan, story.operator.log.read_text(), *story.operator.heard):
        assert PASSWORD not in text and written not in text


def test_a_second_run_changes_nothing(story: Story) -> None:
    assert story.operator.pyinfra(inventory=INVENTORY).changed == {}


def test_a_proxy_that_leaves_the_inventory_leaves_nothing_behind(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    network.reconnect(Network(NUMBER))
    monkeypatch.setenv("PROXY", "none")
    run = story.operator.pyinfra(inventory=INVENTORY)
    assert run.code == 0, run.output[-4000:]
    left = story.machine.run(
        "ls /etc/systemd/system/*/52-enginehouse-proxy.conf /etc/apt/apt.conf.d/52*proxy", check=False
    )
    assert "enginehouse-weights" not in left.stdout and "apt.conf.d" not in left.stdout
    assert "builder" not in story.machine.run("docker info 2>/dev/null | grep -i proxy; true").stdout
