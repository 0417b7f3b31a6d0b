"""A connection that ends under a command is told as what it is."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest
from paramiko import SSHException
from pyinfra.connectors.ssh import SSHConnector

from roles import lines, steps


def connector(is_active: bool) -> Any:
    """With a client whose line still is, or has ended."""
    transport = SimpleNamespace(is_active=lambda: is_active)
    return SimpleNamespace(client=SimpleNamespace(get_transport=lambda: transport))


@pytest.mark.parametrize("error", [EOFError(), SSHException("Channel is not open"), OSError("Socket is closed")])
def test_a_line_that_broke_is_an_error_pyinfra_knows(error: Exception) -> None:
    def broken(_: Any) -> tuple[bool, Any]:
        raise error

    with pytest.raises(ConnectionError, match="the connection to this host is lost"):
        lines.told(broken)(connector(is_active=False))


def test_a_command_that_ended_because_its_line_did_is_no_failure_of_the_command() -> None:
    failed = lines.told(lambda _: (False, ["said"]))
    assert failed(connector(is_active=True)) == (False, ["said"])
    with pytest.raises(ConnectionError):
        failed(connector(is_active=False))


def test_a_command_that_failed_without_a_word_may_know_of_it_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """paramiko closes the channel, and a moment later the transport."""
    seen = iter([True, True, False])
    transport = SimpleNamespace(is_active=lambda: next(seen, False))
    closing = SimpleNamespace(client=SimpleNamespace(get_transport=lambda: transport))
    monkeypatch.setattr(lines.time, "sleep", lambda seconds: None)
    with pytest.raises(ConnectionError):
        lines.told(lambda _: (False, []))(closing)


def test_a_command_that_said_why_it_failed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "until_lost", lambda _: pytest.fail("waited"))
    assert lines.told(lambda _: (False, ["said"]))(connector(is_active=True)) == (False, ["said"])


def test_a_host_that_says_nothing_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[Any, Any] = {}
    sock = SimpleNamespace(setsockopt=lambda *option: asked.update({option[:2]: option[2]}))
    transport = SimpleNamespace(set_keepalive=lambda seconds: asked.update({"alive": seconds}), sock=sock)
    made = SimpleNamespace(client=None)

    def connect(connector: Any) -> None:
        connector.client = SimpleNamespace(get_transport=lambda: transport)

    lines.kept_alive(connect)(made)
    assert asked == {"alive": 15, (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): 120_000}
    transport.sock = SimpleNamespace()  # the channel of a jump host has no such option
    lines.kept_alive(connect)(made)


def test_a_connection_that_was_not_made_is_left_to_pyinfra() -> None:
    lines.kept_alive(lambda connector: None)(SimpleNamespace(client=None))


def test_time_that_ran_out_stays_what_it_is() -> None:
    def late(_: Any) -> tuple[bool, Any]:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        lines.told(late)(connector(is_active=True))


def test_every_role_runs_over_connections_that_tell() -> None:
    assert steps.lines is lines
    mended = SSHConnector.run_shell_command
    lines.mend()
    assert SSHConnector.run_shell_command is mended and hasattr(mended, "__wrapped__")
