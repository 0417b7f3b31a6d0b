"""HAProxy's configuration as written, one file for each branch that an OS ships; its diff is the review."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.slices.traffic import RouteSlice
from roles.balancer.config import config, everything, hold, until_all_have_them
from roles.balancer.defaults import Places
from roles.balancer.keys import HEADER
from tests.roles.balancer.bench import HAPROXY, balancer, version
from tests.roles.balancer.slices import CHAT, a_balancer, gateway_route, member
from tests.unit.certificates import write_certificate
from tests.unit.golden import same_as_golden

SEARCH = replace(CHAT, pool="search", http_port=8090, grpc_port=8091, hold_seconds=300, members=(member(3),))
BEHIND = replace(CHAT, gateway=gateway_route(1, 2))
HELD = replace(SEARCH, gateway=gateway_route(3, port=9443, answer_seconds=7200))
TLS = "/etc/enginehouse/balancer/tls-0123456789abcdef.pem"
BRANCHES = pytest.mark.parametrize("branch", ["2.6", "2.8", "3.0"])


@BRANCHES
def test_the_configuration_is_the_golden_file(branch: str) -> None:
    mine = a_balancer(CHAT, SEARCH, haproxy=branch)
    same_as_golden(f"haproxy/{branch}.cfg", config(mine, everything(mine), TLS))


@BRANCHES
def test_gateways_are_this_file(branch: str) -> None:
    """A pool whose requests wait beside one whose requests do not; the longest answer sets the timeout of both."""
    mine = a_balancer(BEHIND, HELD, haproxy=branch)
    same_as_golden(f"haproxy/gateway-{branch}.cfg", config(mine, everything(mine), TLS))


@BRANCHES
def test_ports_that_ask_for_keys_are_this_file(branch: str) -> None:
    mine = a_balancer(CHAT, SEARCH, haproxy=branch, keys="file")
    same_as_golden(f"haproxy/keys-{branch}.cfg", config(mine, everything(mine), TLS))


def test_every_backend_has_servers() -> None:
    """An alert fires on a backend without servers."""
    mine = a_balancer(BEHIND, HELD, keys="file")
    backends = config(mine, everything(mine), TLS).split("\nbackend ")[1:]
    assert [text.split()[0] for text in backends if "\n    server " not in text] == []


@BRANCHES
def test_only_servers_of_hosts_join_and_leave(branch: str) -> None:
    """HAProxy's line for waiting requests is not among the lines that change."""
    mine = a_balancer(CHAT, SEARCH, haproxy=branch)
    places = [line.place for line in balancer.lines_of(config(mine, everything(mine), TLS))]
    members = [(route.pool, host.name) for route in mine.routes for host in route.members]
    assert sorted(places) == sorted(f"{pool}_{kind}/{name}" for pool, name in members for kind in ("http", "grpc"))


def test_plain_text_and_ipv6_are_this_file() -> None:
    mine = a_balancer(
        replace(CHAT, members=(member(1, address="fd00::11", agent_address="fd00::11"),)), address="fd00::5"
    )
    same_as_golden("haproxy/plain-v6.cfg", config(mine, everything(mine)))


@pytest.mark.skipif(
    not shutil.which("haproxy"), reason="no haproxy: python -m rehearsal requirements --install --tests"
)
@pytest.mark.parametrize(
    ("routes", "keys", "asks"),
    [((CHAT, SEARCH), "", False), ((BEHIND, HELD), "", True), ((CHAT, HELD), "file", False)],
    ids=["servers", "gateways", "keys"],
)
def test_the_haproxy_of_this_machine_takes_it_without_a_warning(
    tmp_path: Path, routes: tuple[RouteSlice, ...], keys: str, asks: bool
) -> None:
    (tmp_path / "hold.lua").write_text(hold())
    (tmp_path / "state").write_text("1\n")
    pem = write_certificate(tmp_path)
    pem.with_suffix(".key").rename(f"{pem}.key")
    mine = a_balancer(*routes, haproxy=version(), keys=keys)
    for pool in ("chat", "search"):
        (tmp_path / f"keys-{pool}.map").write_text(HEADER)
    places = Places(settings=str(tmp_path), run=str(tmp_path), user="")
    (tmp_path / "haproxy.cfg").write_text(config(mine, everything(mine), str(pem), str(pem) if asks else "", places))
    argv = [HAPROXY, "-c", "-dW", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "NOTICE" not in line]) == (0, [])


def test_a_host_that_joins_or_leaves_needs_no_reload() -> None:
    one_member, two_members = a_balancer(replace(CHAT, members=(member(1),))), a_balancer()
    assert described(config(one_member, everything(one_member))) == described(
        config(two_members, everything(two_members))
    )


def test_another_port_needs_a_reload() -> None:
    moved = a_balancer(replace(CHAT, http_port=8088))
    assert described(config(moved, everything(moved))) != described(config(a_balancer(), everything(a_balancer())))


def test_another_pace_needs_a_reload() -> None:
    wide, narrow = (
        a_balancer(replace(CHAT, hold_seconds=60, held_in_flight=number), haproxy="2.6") for number in (64, 32)
    )
    assert described(config(wide, everything(wide))) != described(config(narrow, everything(narrow)))


def test_models_that_come_or_go_are_not_checked_during_a_rollout() -> None:
    assert until_all_have_them(a_balancer(), {"chat": ("gpt", "bge")}) == {"chat": ("bge",)}


def test_a_new_pool_is_checked_for_all_its_models() -> None:
    assert until_all_have_them(a_balancer(), {"search": ("bge",)}) == {"chat": ("llama", "bge")}


def described(text: str) -> str:
    """The description of a HAProxy process that loaded this configuration."""
    return next(line for line in text.splitlines() if line.startswith("    description "))
