"""The firewall role on hosts in every state, and the rules that it writes."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from deploy.slices.host import Slice
from deploy.slices.traffic import TrafficServerSlice, TrafficSlice
from deploy.spec import Firewall, Gateway, Opening
from roles import firewall
from roles._pyinfra import undo
from roles.firewall import defaults
from roles.firewall.facts import SSH_PORTS
from roles.firewall.rules import rules
from tests.roles.balancer.slices import CHAT, a_balancer, gateway_route
from tests.roles.fake import Ran, run
from tests.roles.gateway.gateways import h100
from tests.roles.slices import SERVER, a_slice

ROOT = Path(__file__).parents[3]
DECLARED = Firewall(allow=("10.0.0.0/8", "10.1.0.0/16", "fd00::/8"), metrics=("10.0.9.9/32",))
PUBLIC = replace(SERVER, address="10.0.0.5")
LOADED = ["value\tloaded\tloaded",
          f"unit\tId={defaults.UNIT_NAME}", "unit\tLoadState=loaded", "unit\tActiveState=active",
          "unit\tUnitFileState=enabled", "unit\t"]  # fmt: skip
SSH = ["value\tssh-ports\t22", "value\tssh-ports\t2222"]
LOADING = f"systemctl reload-or-restart {defaults.UNIT_NAME} && {undo.PROGRAM} watch firewall 30"
TOOL = ["package\tnftables\t1.1.3-1\tii "]


def declared(firewall: Firewall | None = DECLARED, **changes: Any) -> Slice:
    """A host with one server on its private address."""
    return a_slice(servers=(replace(PUBLIC, **changes),), firewall=firewall)


def placed(*extra: tuple[str, str]) -> list[str]:
    """Our program and unit as in the repository, and other files with their content."""
    files = [
        (defaults.PROGRAM, (ROOT / "files/shell/firewall.sh").read_text()),
        (defaults.UNIT, (ROOT / f"files/units/{defaults.UNIT_NAME}").read_text()),
        *extra,
    ]
    return [f"file\t{path}\t{sha256(content.encode()).hexdigest()}" for path, content in files]


def play(mine: Slice, *seen: str, **how: Any) -> Ran:
    """The role on a host with the facts `seen`."""
    return run(lambda: firewall.apply(mine), answers={"dpkg-query": list(seen)}, **how)


def test_a_port_that_ssh_forwards_is_not_a_port_of_sshd(tmp_path: Path) -> None:
    """sshd listens at 22, serves a connection at 2222, where systemd listens, and connects to 8080 for a client. It
    listens at 5480 for another client: the rules would change with each such client."""
    tool = tmp_path / "ss"
    tool.write_text(
        """#!/bin/sh
case $1 in
-Htlnp) cat <<'END'
LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:(("sshd",pid=1,fd=3))
LISTEN 0 4096 *:2222 *:* users:(("systemd",pid=1,fd=9))
LISTEN 0 4096 127.0.0.1:8080 0.0.0.0:* users:(("python",pid=7,fd=9))
LISTEN 0 128 127.0.0.1:5480 0.0.0.0:* users:(("sshd-session",pid=3,fd=9))
LISTEN 0 128 [::1]:5480 [::]:* users:(("sshd-session",pid=3,fd=10))
END
;;
*) cat <<'END'
0 0 10.0.0.11:2222 10.0.0.5:51000 users:(("sshd",pid=2,fd=4))
0 0 127.0.0.1:5480 127.0.0.1:40100 users:(("sshd-session",pid=3,fd=11))
0 0 127.0.0.1:40022 127.0.0.1:8080 users:(("sshd",pid=2,fd=9))
END
;;
esac
"""
    )
    tool.chmod(0o755)
    question = SSH_PORTS.replace("/usr/sbin/sshd -T", "true")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert subprocess.check_output(["sh", "-c", question], env=environment, text=True).split() == ["22", "2222"]


def test_an_undeclared_firewall_is_no_change() -> None:
    assert play(declared(None), *TOOL, *SSH).commands == ()


def test_an_undeclared_firewall_is_removed() -> None:
    assert play(declared(None), *TOOL, *SSH, *placed((defaults.RULES, "x"))).commands == (
        "systemctl disable --now enginehouse-firewall.service",
        f"rm -f {defaults.UNIT} {defaults.RULES} {defaults.PROGRAM} && systemctl daemon-reload",
    )


def test_new_rules_are_kept_watched_written_loaded_and_confirmed_in_this_order() -> None:
    commands = play(declared(), *TOOL, *SSH, *placed()).commands
    assert [command.split("\n")[0] for command in commands] == [
        "systemctl enable enginehouse-firewall.service",
        f'{undo.PROGRAM} save firewall --after "bash {defaults.PROGRAM} load" {defaults.RULES}',
        f"{undo.PROGRAM} watch --making firewall 330",
        "mkdir -p /etc/enginehouse && cat > /etc/enginehouse/firewall.nft.enginehouse-new"
        " && test $(stat -c %s /etc/enginehouse/firewall.nft.enginehouse-new ) = (its size) && chmod 0644 "
        "/etc/enginehouse/firewall.nft.enginehouse-new && sync /etc/enginehouse/firewall.nft.enginehouse-new && "
        "mv -T /etc/enginehouse/firewall.nft.enginehouse-new /etc/enginehouse/firewall.nft",
        f"risk {LOADING}",
        "confirm firewall over a new connection",
    ]


def test_rules_in_force_are_no_change() -> None:
    rest = [*TOOL, *SSH, *LOADED, *placed((defaults.RULES, rules(declared(), (22, 2222))))]
    ran = play(declared(), *rest)
    assert (ran.commands, ran.would_change) == ((), ())


def test_rules_that_a_killed_run_left_unconfirmed_are_confirmed_before_the_host_takes_them_back() -> None:
    rest = [*TOOL, *SSH, *LOADED, *placed((defaults.RULES, rules(declared(), (22, 2222))))]
    assert play(declared(), *rest, "value\tunconfirmed\tkept.json").commands == (
        f'{undo.PROGRAM} save firewall --after "bash {defaults.PROGRAM} load" {defaults.RULES}',
        f"{undo.PROGRAM} watch firewall 30",
        "confirm firewall over a new connection",
    )


def test_rules_somebody_flushed_are_loaded_again() -> None:
    rest = [*TOOL, *SSH, *LOADED[1:], *placed((defaults.RULES, rules(declared(), (22, 2222))))]
    assert f"risk {LOADING}" in play(declared(), *rest).commands


def test_a_host_that_does_not_say_where_ssh_answers_gets_no_rules() -> None:
    ran = play(declared(), *TOOL, *placed())
    assert ran.failed_hosts == ("host",)
    assert "the ports of this host's sshd are unknown, so no firewall is loaded" in "\n".join(ran.log)


def test_a_host_that_locks_us_out_fails_and_names_the_reverted_change() -> None:
    note = '{"why": "", "when": "05:52", "paths": ["/etc/x"], "said": []}'
    answers = {"cat /etc/enginehouse/undo": note, "reload-or-restart": ""}

    def second(state: object, host: object, command: str, arguments: object) -> tuple[bool | None, list[str]]:
        return next(((True, text.split("\n")) for piece, text in answers.items() if piece in command), (None, []))

    with mock.patch.object(undo, "over_a_new_connection", second), mock.patch.object(undo, "RETRY_SECONDS", 0.01):
        ran = play(declared(replace(DECLARED, confirm_seconds=0)), *TOOL, *SSH, *placed())
    assert ran.failed_hosts == ("host",)
    assert "the firewall's new rules shut this program out, and the host has taken them back" in "\n".join(ran.log)


def test_published_ports_are_open_to_the_declared_networks_only() -> None:
    lines = [line.strip() for line in rules(declared(), (22,)).splitlines()]
    assert "ip daddr 10.0.0.5 tcp dport { 8000, 8001 } jump servers" in lines
    assert "ip daddr 10.0.0.5 tcp dport 8002 jump metrics" in lines
    assert lines[lines.index("chain servers {") + 1 :][:3] == [
        "ip saddr { 10.0.0.0/8 } accept",
        "ip6 saddr { fd00::/8 } accept",
        "counter drop",
    ]


@pytest.mark.parametrize(
    ("address", "match"),
    [("0.0.0.0", "tcp dport 8002"), ("::", "tcp dport 8002"), ("fd00::5", "ip6 daddr fd00::5 tcp dport 8002")],
)
def test_any_kind_of_address_is_matched(address: str, match: str) -> None:
    assert f"    {match} jump metrics\n" in rules(declared(address=address), (22,))


def test_ssh_comes_before_everything_that_drops() -> None:
    text = rules(declared(replace(DECLARED, rest="closed", open=(Opening(port=9100),))), (22, 2222))
    arriving = text[text.index("chain arriving") :]
    assert arriving.index("tcp dport { 22, 2222 } accept") < arriving.index("jump servers")


def test_a_server_on_loopback_has_no_rule() -> None:
    assert "jump servers" not in rules(declared(address="127.0.0.1"), (22,))


def test_only_a_closed_host_drops_the_rest() -> None:
    endings = [rules(declared(replace(DECLARED, rest=rest)), (22,)).count("counter drop") for rest in
               ("untouched", "closed")]  # fmt: skip
    assert endings == [4, 5]


def test_an_opening_is_open_to_its_declared_networks() -> None:
    openings = (Opening(port=9100, sources=("10.0.9.0/24",)), Opening(port=53, protocol="udp"))
    text = rules(declared(replace(DECLARED, rest="closed", open=openings)), (22,))
    assert "    tcp dport 9100 jump open0\n    udp dport 53 accept\n" in text


def test_the_confirmation_comes_over_a_connection_of_its_own() -> None:
    ran = play(declared(), *TOOL, *SSH, *placed())
    assert "confirm firewall over a new connection" in ran.commands
    assert not [heard.command for heard in ran.shell["host"] if "host undo confirm" in heard.command]


def test_every_host_that_may_send_requests_may_ask_for_readiness() -> None:
    traffic = TrafficSlice(
        address="10.0.0.11",
        ready_port=8003,
        agent_port=8004,
        drain_seconds=60,
        heard_seconds=5,
        balancers=(),
        servers=(TrafficServerSlice(name="main", models=(), seen_as=()),),
    )
    text = rules(replace(declared(), traffic=traffic), (22,))
    assert "ip daddr 10.0.0.11 tcp dport { 8003, 8004 } jump servers" in text


def test_a_balancers_ports_are_for_clients_and_its_exporter_for_hosts() -> None:
    mine = a_balancer(firewall=Firewall(allow=("10.1.0.0/16",), metrics=("10.0.0.11/32",), rest="closed"))
    text = rules(mine, (22,))
    assert "tcp dport { 8080, 8081 } jump servers" in text
    assert "tcp dport 8405 jump metrics" in text


def test_a_gateway_behind_a_balancer_is_open_to_the_same_hosts_as_the_servers() -> None:
    _, gateway = h100(Gateway(ports=(8080, 8081)))
    opened = rules(replace(declared(), gateway=replace(gateway, address="10.0.0.11")), (22,))
    assert "ip daddr 10.0.0.11 tcp dport { 8080, 8081 } jump servers" in opened
    assert "8081" not in rules(replace(declared(), gateway=gateway), (22,))


def test_a_balancer_lets_clients_in_to_gateways() -> None:
    mine = a_balancer(replace(CHAT, gateway=gateway_route(1)), firewall=Firewall(allow=("10.1.0.0/16",)))
    assert "tcp dport { 8080, 8081, 8443 } jump servers" in rules(mine, (22,))


@pytest.mark.parametrize(("acts", "loads"), [("load; gone; again", 2), ("load; again", 1), ("load; unload; again", 1)])
def test_a_table_that_another_program_removed_is_loaded_again(tmp_path: Path, acts: str, loads: int) -> None:
    """The watchdog asks for it after `nft flush ruleset`; a firewall that was stopped stays so."""
    text = (ROOT / "files/shell/firewall.sh").read_text()
    text = text.replace("/etc/enginehouse", str(tmp_path)).replace("/run", str(tmp_path))
    (tmp_path / "firewall.sh").write_text(text)
    (tmp_path / "firewall.nft").write_text("table inet enginehouse {}\n")
    table, log = tmp_path / "table", tmp_path / "log"
    nft = f'case "$*" in -f*) touch {table}; echo load >>{log} ;; *list*) test -e {table} ;; *) rm {table} ;; esac'
    (tmp_path / "nft").write_text(f"#!/bin/sh\n{nft}\n")
    (tmp_path / "nft").chmod(0o755)
    script = f'gone() {{ rm {table}; }}; for verb in load again unload; do alias $verb="bash firewall.sh $verb"; done'
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ["bash", "-ec", f"shopt -s expand_aliases\n{script}\n{acts}"]
    subprocess.run(words, env=environment, cwd=tmp_path, check=True, capture_output=True)
    assert log.read_text().count("load") == loads
