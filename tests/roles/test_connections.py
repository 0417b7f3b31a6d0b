"""A connection that ends during a command is reported as lost; a run may open as many as the system allows."""

from __future__ import annotations

import re
import resource
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from paramiko import SSHException
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.util import CommandOutput, OutputLine

from roles._pyinfra import connections

ROOT = Path(__file__).parents[2]


def output_of(*lines: str) -> CommandOutput:
    return CommandOutput([OutputLine("stderr", line) for line in lines])


def connector(is_active: bool) -> Any:
    """A connector whose client has an open or an ended connection."""
    transport = SimpleNamespace(is_active=lambda: is_active)
    return SimpleNamespace(client=SimpleNamespace(get_transport=lambda: transport))


@pytest.mark.parametrize("error", [EOFError(), SSHException("Channel is not open"), OSError("Socket is closed")])
def test_a_broken_connection_is_an_error_that_pyinfra_handles(error: Exception) -> None:
    def broken(_: Any) -> tuple[bool, Any]:
        raise error

    with pytest.raises(ConnectionError, match="the connection to this host is lost"):
        connections.naming_loss(broken)(connector(is_active=False))


def test_a_command_that_ended_because_its_line_did_is_no_failure_of_the_command() -> None:
    failed = connections.naming_loss(lambda _: (False, ["said"]))
    assert failed(connector(is_active=True)) == (False, ["said"])
    with pytest.raises(ConnectionError):
        failed(connector(is_active=False))


def test_a_silent_failure_waits_until_the_connection_is_known_to_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """paramiko closes the channel first, and the transport slightly later."""
    seen = iter([True, True, False])
    transport = SimpleNamespace(is_active=lambda: next(seen, False))
    closing = SimpleNamespace(client=SimpleNamespace(get_transport=lambda: transport))
    monkeypatch.setattr(connections.time, "sleep", lambda seconds: None)
    with pytest.raises(ConnectionError):
        connections.naming_loss(lambda _: (False, []))(closing)


def test_a_command_that_failed_with_a_reason_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "is_lost_within_a_second", lambda _: pytest.fail("waited"))
    assert connections.naming_loss(lambda _: (False, ["said"]))(connector(is_active=True)) == (False, ["said"])


def test_a_command_that_found_the_disk_full_names_the_disk_and_the_next_command() -> None:
    """`cat: write error` alone tells an operator neither the disk nor what still serves."""
    logged: list[str] = []
    host = SimpleNamespace(log_styled=lambda line, **styles: logged.append(line))
    rows = ["/dev/vda1 900 100 800 12% /", "/dev/vdb 900 900 0 100% /var/lib/enginehouse"]

    def ran(_: Any, command: Any, **more: Any) -> tuple[bool, Any]:
        return (
            (True, output_of(*rows))
            if str(command).startswith("for i")
            else (False, output_of(f"cat: {connections.FULL}"))
        )

    failed = connections.naming_loss(ran)(SimpleNamespace(**vars(connector(is_active=True)), host=host), "cat")
    assert failed[0] is False
    assert logged[:2] == [
        "a file system of this host is full",
        "  found   /var/lib/enginehouse without free space or inodes",
    ]
    assert logged[-1].startswith("  try     du -xm --max-depth=2 /var/lib/enginehouse ")
    logged.clear()
    rows.pop()  # a quota, or inotify's limit: no disk is blamed
    connections.naming_loss(ran)(SimpleNamespace(**vars(connector(is_active=True)), host=host), "cat")
    assert logged == []


def test_a_command_of_apt_that_waits_names_who_holds_the_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """unattended-upgrades holds them for minutes after a cloud image's first boot."""
    monkeypatch.setattr(connections, "APT_SECONDS", 0)
    logged: list[str] = []
    host = SimpleNamespace(log=lambda line, **styles: logged.append(line))

    def ran(_: Any, command: Any, **more: Any) -> tuple[bool, Any]:
        if "/proc/locks" in str(command):
            assert more == {"_sudo": True}, "a question has neither the input nor the time limit of the command"
            return True, output_of("unattended-upgr (process 812)")
        while not logged:
            connections.gevent.sleep(0)
        return True, []

    made = SimpleNamespace(**vars(connector(is_active=True)), host=host)
    connections.naming_loss(ran)(made, "/usr/bin/patient-apt install curl", _sudo=True, _stdin="", _timeout=9)
    (line,) = set(logged)
    assert line.startswith("apt waits up to 15 minutes for unattended-upgr (process 812), which holds its locks")


def test_a_host_that_says_nothing_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[Any, Any] = {}
    sock = SimpleNamespace(setsockopt=lambda *option: options.update({option[:2]: option[2]}))
    transport = SimpleNamespace(set_keepalive=lambda seconds: options.update({"alive": seconds}), sock=sock)
    made = SimpleNamespace(client=None)

    def connect(connector: Any) -> None:
        connector.client = SimpleNamespace(get_transport=lambda: transport)

    connections.kept_alive(connect)(made)
    assert options == {"alive": 15, (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): 120_000}
    transport.sock = SimpleNamespace()  # the channel of a jump host has no such option
    connections.kept_alive(connect)(made)


def test_a_connection_that_was_not_made_is_left_to_pyinfra() -> None:
    connections.kept_alive(lambda connector: None)(SimpleNamespace(client=None))


def test_a_timeout_stays_a_timeout() -> None:
    def late(_: Any) -> tuple[bool, Any]:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        connections.naming_loss(late)(connector(is_active=True))


NOTHING_IS_PATCHED = """
import pkgutil, importlib, roles
for module in pkgutil.walk_packages(roles.__path__, "roles."):
    importlib.import_module(module.name)
from pyinfra.connectors.ssh import SSHConnector
print(SSHConnector.run_shell_command.__wrapped__ if hasattr(SSHConnector.run_shell_command, "__wrapped__") else "")
print({getattr(SSHConnector, name).__module__ for name in ("connect", "run_shell_command")})
"""


def test_importing_every_role_leaves_pyinfra_s_connector_untouched() -> None:
    """Only a verb that calls `install` changes the connector."""
    run = subprocess.run(
        [sys.executable, "-c", NOTHING_IS_PATCHED], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout == "\n{'pyinfra.connectors.ssh'}\n"


@pytest.fixture
def methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores pyinfra's own methods after the test."""
    for name in ("run_shell_command", "connect"):
        monkeypatch.setattr(SSHConnector, name, getattr(SSHConnector, name))


@pytest.mark.usefixtures("methods")
def test_installed_twice_is_installed_once() -> None:
    """Forty hosts run the verb, and each one calls `install`."""
    connections.install(SimpleNamespace())
    installed = SSHConnector.run_shell_command
    connections.install(SimpleNamespace())
    assert SSHConnector.run_shell_command is installed and hasattr(installed, "__wrapped__")


@pytest.mark.usefixtures("methods")
def test_the_connection_a_verb_finds_open_is_kept_alive_too() -> None:
    """pyinfra connects before it runs the verb."""
    intervals: list[int] = []
    transport = SimpleNamespace(set_keepalive=intervals.append, sock=SimpleNamespace())
    client = SimpleNamespace(get_transport=lambda: transport)
    connections.install(SimpleNamespace(connector=SimpleNamespace(client=client)))
    assert intervals == [15]


@pytest.mark.parametrize("verb", ["deploy.py", "rollback.py", "build.py", "remove.py", "doctor.py"])
def test_every_verb_installs_it_before_it_asks_a_host(verb: str) -> None:
    """The call comes before the first call of a role."""
    lines = (ROOT / verb).read_text("utf-8").splitlines()
    calls = [line.partition("(")[0] for line in lines if re.match(r"[a-z]+\.[a-z.]+\(", line)]
    assert calls[0] == "connections.install"


@pytest.mark.parametrize(("hard", "expected"), [(4_096, 4_096), (resource.RLIM_INFINITY, 65_536)])
def test_a_run_may_open_as_many_files_as_the_hard_limit_allows(
    monkeypatch: pytest.MonkeyPatch, hard: int, expected: int
) -> None:
    changed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: changed.append(limits))
    connections.allow_open_files()
    assert changed == [(expected, hard)]


def test_macos_gets_its_own_most_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Darwin's setrlimit refuses more than OPEN_MAX although the hard limit is said to be infinite."""
    changed: list[int] = []

    def setrlimit(_: int, limits: tuple[int, int]) -> None:
        if limits[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")
        changed.append(limits[0])

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    connections.allow_open_files()
    assert changed == [10_240]


def test_a_run_of_pyinfra_raises_its_own_limit() -> None:
    pyinfra = [sys.executable, "-m", "pyinfra", "@local", "exec", "--", "grep 'open files' /proc/self/limits"]
    limited = ["bash", "-c", 'ulimit -Sn 128 && ulimit -Hn 512 && exec "$@"', "bash", *pyinfra]
    ran = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert re.search(r"Max open files\s+512\s+512", ran.stdout + ran.stderr), ran.stderr
