"""`host group`: parts of one model start and end together, as real processes on addresses of this computer."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roles._shipping.texts import HERE
from tests.ports import free_ports

DOCKER = """#!/bin/sh
echo "$@" >>"$ENGINEHOUSE_ROOT/docker"
kill -TERM "$(cat "$ENGINEHOUSE_ROOT/ranks")"
"""
RANKS = "import os, pathlib, time; pathlib.Path(os.environ['ENGINEHOUSE_ROOT'], 'ranks').write_text(str(os.getpid())); "
RANKS += "time.sleep(300)"
SYSTEMCTL = """#!/bin/sh
echo "$@" >>"$ENGINEHOUSE_ROOT/systemctl"
"""
SECONDS = 120
"""Seconds within which processes start or end on a busy computer."""


class Host:
    """A member: its directory, its address, and its program once started."""

    def __init__(self, root: Path, number: int, port: int, llm_port: int) -> None:
        self.root, self.number, self.address = root / f"host-{number}", number, f"127.0.77.{number + 1}"
        self.port, self.llm_port = port, llm_port
        self.release("one")
        (self.root / "servers/main").mkdir(parents=True)
        (self.root / "bin").mkdir()
        for name, text in (("docker", DOCKER), ("systemctl", SYSTEMCTL)):
            (self.root / "bin" / name).write_text(text)
            (self.root / "bin" / name).chmod(0o755)
        self.process: subprocess.Popen[bytes] | None = None
        self.points_to("one")

    def release(self, identity: str) -> None:
        """Adds a release of the group, by its identity."""
        folder = self.root / "releases" / identity
        folder.mkdir(parents=True)
        members = [{"host": f"host-{number}", "address": f"127.0.77.{number + 1}"} for number in range(2)]
        group = {"identity": identity, "number": self.number, "members": members, "port": self.port, "stop_seconds": 5}
        (folder / "server.json").write_text(json.dumps({"llm_port": self.llm_port, "group": group}))

    def points_to(self, identity: str) -> None:
        """Points `current` to this release."""
        link = self.root / "servers/main/current"
        link.unlink(missing_ok=True)
        link.symlink_to(self.root / "releases" / identity)

    def writes(self, name: str, **content: Any) -> None:
        """Writes a record beside `current`."""
        (self.root / "servers/main" / name).write_text(json.dumps(content))

    def start(self) -> None:
        """Starts the program as the unit does."""
        environment = {
            **os.environ,
            "ENGINEHOUSE_ROOT": str(self.root),
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
        }
        words = [sys.executable, "-B", str(HERE / "files/host"), "group", "main", "--", sys.executable, "-c", RANKS]
        with (self.root / "output").open("a") as output:
            self.process = subprocess.Popen(words, env=environment, stdout=output)

    def runs(self) -> bool:
        """True if its ranks run."""
        file = self.root / "ranks"
        try:
            return bool(file.exists() and Path(f"/proc/{file.read_text()}/cmdline").read_text())
        except OSError:
            return False

    def ended(self) -> tuple[int, str]:
        """Status and output of the program, once it has ended."""
        assert self.process
        return self.process.wait(SECONDS), (self.root / "output").read_text()

    def kill(self) -> None:
        """Kills the program."""
        if self.process:
            self.process.kill()
            self.process.wait(SECONDS)

    def log(self, name: str) -> str:
        """Calls of a stand-in of docker or systemctl."""
        file = self.root / name
        return file.read_text() if file.exists() else ""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """A leader and its follower, not started; both are stopped afterwards."""
    port, *llm_ports = free_ports(3)
    pair = Host(tmp_path, 0, port, llm_ports[0]), Host(tmp_path, 1, port, llm_ports[1])
    yield pair
    for host in pair:
        if host.runs():
            os.kill(int((host.root / "ranks").read_text()), signal.SIGKILL)
        host.kill()


def until(is_so: Callable[[], bool], seconds: float = SECONDS) -> bool:
    """True as soon as the condition holds; False after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.05)
    return False


def both_run(hosts: tuple[Host, Host]) -> bool:
    """Starts both members, and waits for their ranks."""
    for host in hosts:
        host.start()
    return until(lambda: all(host.runs() for host in hosts))


def test_ranks_start_once_all_hosts_are_there(hosts: tuple[Host, Host]) -> None:
    leader, follower = hosts
    leader.start()
    assert not until(leader.runs, 1)
    follower.start()
    assert until(lambda: leader.runs() and follower.runs())


def test_hosts_with_different_releases_wait_for_each_other(hosts: tuple[Host, Host]) -> None:
    leader, follower = hosts
    follower.release("two")
    follower.points_to("two")
    leader.start()
    follower.start()
    assert not until(lambda: leader.runs() or follower.runs(), 3)
    assert all(host.process and host.process.poll() is None for host in hosts)


@pytest.mark.parametrize("puts_back", [0, 1])
def test_a_host_that_reverts_ends_the_other_hosts_wait(hosts: tuple[Host, Host], puts_back: int) -> None:
    """The wait ends only within the same run: a later attempt with the same release waits."""
    waits, back = hosts[1 - puts_back], hosts[puts_back]
    back.release("two")
    waits.release("two")
    waits.points_to("two")
    waits.writes("wanted.json", run="run-7")
    back.writes("put-back.json", release="two", run="run-6")
    waits.start()
    back.start()
    assert not until(lambda: bool(waits.process and waits.process.poll() is not None), 3)
    back.kill()
    back.writes("put-back.json", release="two", run="run-7")
    back.start()
    status, output = waits.ended()
    assert (status, f"host-{puts_back} does not serve this release" in output) == (1, True)


@pytest.mark.parametrize("dies", [0, 1])
def test_a_parts_end_ends_all_parts_and_counts_on_its_host(hosts: tuple[Host, Host], dies: int) -> None:
    assert both_run(hosts)
    os.kill(int((hosts[dies].root / "ranks").read_text()), signal.SIGKILL)
    endings = [host.ended() for host in hosts]
    assert [status for status, _output in endings] == [1, 1]
    assert not any(host.runs() for host in hosts)
    assert f"lost host-{dies}" in endings[1 - dies][1]
    assert "kill llm-main" in hosts[1 - dies].log("docker")
    assert ["reset-failed" in host.log("systemctl") for host in hosts] == [dies == 1, dies == 0]


def test_a_silent_host_is_a_lost_one(hosts: tuple[Host, Host]) -> None:
    """The process is stopped, not killed: its connection is open, but silent."""
    assert both_run(hosts)
    assert hosts[1].process
    hosts[1].process.send_signal(signal.SIGSTOP)
    status, output = hosts[0].ended()
    hosts[1].process.send_signal(signal.SIGCONT)
    assert status == 1 and "lost host-1: silent for 10 seconds" in output
    assert hosts[1].ended()[0] == 1


@pytest.mark.parametrize("stops", [0, 1])
def test_the_leader_stops_first_for_a_stop_of_any_member(hosts: tuple[Host, Host], stops: int) -> None:
    """`docker stop` lets its requests end; no rank is killed before that."""
    assert both_run(hosts)
    process = hosts[stops].process
    assert process
    process.terminate()
    assert hosts[0].ended()[0] == (143 if stops == 0 else 1)
    assert hosts[1].ended()[0] == (143 if stops == 1 else 1)
    assert hosts[0].log("docker").splitlines()[0] == "stop llm-main"
    assert hosts[1].log("docker").splitlines() == ["kill llm-main"]


def test_a_host_that_waits_for_others_stops_at_once(hosts: tuple[Host, Host]) -> None:
    hosts[1].start()
    assert not until(hosts[1].runs, 1)
    assert hosts[1].process
    hosts[1].process.terminate()
    assert hosts[1].ended()[0] == 143
    assert "reset-failed llm@main.service" in hosts[1].log("systemctl")


def test_a_stranger_joins_no_group(hosts: tuple[Host, Host]) -> None:
    """From another address than the member's, even the right line is refused."""
    hosts[0].start()
    line = json.dumps({"number": 1, "identity": "one", "put_back": {}}).encode() + b"\n"

    def is_sent_away() -> bool:
        try:
            with socket.create_connection((hosts[0].address, hosts[0].port), SECONDS, ("127.0.77.9", 0)) as stranger:
                stranger.sendall(line)
                return stranger.recv(100) == b""
        except ConnectionResetError:  # closed before its line was read
            return True
        except ConnectionRefusedError:
            return False

    assert until(is_sent_away)
    assert not hosts[0].runs()


def test_a_question_to_a_follower_is_a_question_to_the_leader(hosts: tuple[Host, Host]) -> None:
    assert both_run(hosts)
    with socket.create_server(("127.0.0.1", hosts[0].llm_port)) as program:
        program.settimeout(SECONDS)
        with socket.create_connection(("127.0.0.1", hosts[1].llm_port), SECONDS) as client:
            client.sendall(b"hello")
            with program.accept()[0] as arrived:
                assert arrived.recv(5) == b"hello"
                arrived.sendall(b"world")
            assert client.recv(5) == b"world"
