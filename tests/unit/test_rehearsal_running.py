"""Services of rehearsals whose checkout was removed, as real processes on a separate loopback address."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from rehearsal import __main__, machines, network, running, services
from rehearsal.places import REPOSITORY, Places, RehearsalRefused
from rehearsal.processes import Process
from tests.ports import free_port

pytestmark = [
    pytest.mark.skipif(shutil.which("ss") is None, reason="no ss here (package iproute2)"),
    pytest.mark.xdist_group("127.0.0.77"),
]

ADDRESS = "127.0.0.77"  # an address that only these tests listen on
Start = Callable[[Path], subprocess.Popen[bytes]]


@pytest.fixture
def port() -> int:
    """A port that is free on ADDRESS."""
    return free_port()


@pytest.fixture
def serving(port: int) -> Iterator[Start]:
    """A function that starts a service of a checkout, as `Process` does."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(checkout: Path) -> subprocess.Popen[bytes]:
        checkout.mkdir()
        command = [sys.executable, "-m", "rehearsal.web", "--address", ADDRESS, "--port", str(port), "/nowhere"]
        begun.append(subprocess.Popen(command, cwd=checkout, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}))
        until = time.monotonic() + 600
        while not running.listening(ADDRESS, port) and time.monotonic() < until:
            time.sleep(0.05)
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait()


def another(folder: Path, port: int) -> Process:
    """A service of this checkout that needs the same address."""
    listen = ["--address", ADDRESS, "--port", str(port)]
    folder.mkdir()
    return Process("apt", folder, [sys.executable, "-m", "rehearsal.web", *listen, "/nowhere"], (ADDRESS, port))


def test_a_service_of_a_removed_checkout_is_stopped(serving: Start, port: int, tmp_path: Path) -> None:
    left, mine = serving(tmp_path / "gone"), another(tmp_path / "mine", port)
    shutil.rmtree(tmp_path / "gone")
    try:
        assert mine.start()
        assert left.wait(300) != 0
        assert [process.directory for process in running.listening(ADDRESS)] == [str(REPOSITORY)]
    finally:
        mine.stop()
    assert running.listening(ADDRESS) == []


def test_a_service_of_an_existing_checkout_is_kept_and_named(serving: Start, port: int, tmp_path: Path) -> None:
    holder = serving(tmp_path / "there")
    with pytest.raises(RehearsalRefused) as refused:
        another(tmp_path / "mine", port).start()
    message = str(refused.value)
    assert holder.poll() is None
    assert message.startswith(f"apt cannot listen on {ADDRESS}:{port}: another program does\n  process {holder.pid}: ")
    assert f"`python -m rehearsal down` in {tmp_path / 'there'} with its number, or `kill {holder.pid}`" in message


def test_a_program_that_is_no_service_is_named_and_left_alone(port: int, tmp_path: Path) -> None:
    with socket.create_server((ADDRESS, port)), pytest.raises(RehearsalRefused) as refused:
        another(tmp_path / "mine", port).start()
    assert str(refused.value).endswith(f"  try     `kill {os.getpid()}`; then run again")


def test_the_process_on_the_bridge_of_a_removed_checkout_is_named(
    serving: Start, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is held by a program that is not a service; the message has the command to type."""
    gone = tmp_path / "gone" / ".rehearsal"
    monkeypatch.setattr(network, "_exists", lambda _: True)
    monkeypatch.setattr(network, "_owner", lambda _: str(gone))
    monkeypatch.setattr(network.Network, "bridge_address", ADDRESS)
    with socket.create_server((ADDRESS, port)), pytest.raises(RehearsalRefused) as refused:
        network.bring_up(Places(tmp_path / "mine", 7))
    message = str(refused.value)
    assert f"  owner   {gone}, which is gone\n  process {os.getpid()}: " in message
    assert f"  try     `kill {os.getpid()}`, then run again; or ENGINEHOUSE_REHEARSAL_NUMBER=8 here" in message


def test_down_stops_the_services_of_its_number_too(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(machines, "down", lambda: done.append("machines"))
    monkeypatch.setattr(services, "services_down", lambda: done.append("services"))
    assert CliRunner().invoke(__main__.main, ["down"]).exit_code == 0
    assert done == ["machines", "services"]
