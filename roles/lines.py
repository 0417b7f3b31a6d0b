"""A line that broke is the failure of one host, told in a sentence, and not the end of the run for all of them.

Where a connection ends under a question, paramiko raises this or that, EOFError among it. pyinfra (3.10.0) takes that
one for a defect of its own: it prints a traceback and ends the run, for every host. Where it ends under a command,
paramiko says that the command ended badly, and the operator reads an error without a word.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import time
from collections.abc import Callable
from typing import Any

from paramiko import SSHException
from pyinfra.connectors.ssh import SSHConnector

KEEP_ALIVE_SECONDS, SILENT_SECONDS = 15, 120
LOST = "the connection to this host is lost; while it is up, what was begun there goes on, and the next run takes it up"


def told(call: Callable[..., tuple[bool, Any]]) -> Callable[..., tuple[bool, Any]]:
    """The same call of a connector; where the line breaks it raises what pyinfra knows as one host's failure."""

    @functools.wraps(call)
    def telling(connector: Any, *arguments: Any, **more: Any) -> tuple[bool, Any]:
        try:
            done, output = call(connector, *arguments, **more)
        except TimeoutError:
            raise
        except (EOFError, SSHException, OSError):
            raise ConnectionError(LOST) from None
        if not done and (is_lost(connector) or (not lines_of(output) and until_lost(connector))):
            raise ConnectionError(LOST)
        return done, output

    return telling


def kept_alive(connect: Callable[..., None]) -> Callable[..., None]:
    """The same call; the connection it makes asks every KEEP_ALIVE_SECONDS whether somebody is there, and ends after
    SILENT_SECONDS without a sign.

    A host that lost its power under a long command, or a router that forgot the line, would be waited for without end,
    and all other hosts with it: pyinfra keeps a line alive only where an ssh_config says ServerAliveInterval.
    With 1 s and 6 s a line whose packets were all dropped ended after 6.6 s (2026-11-22, loopback).
    """

    @functools.wraps(connect)
    def connecting(connector: Any) -> None:
        connect(connector)
        transport = connector.client.get_transport() if connector.client is not None else None
        if transport is None:
            return
        transport.set_keepalive(KEEP_ALIVE_SECONDS)
        with contextlib.suppress(AttributeError, OSError):  # through a jump host it is no socket
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_SECONDS * 1000)

    return connecting


def is_lost(connector: Any) -> bool:
    """Whether an SSH connection has ended; not so where there is none, as to this machine itself."""
    client = getattr(connector, "client", None)
    transport = client.get_transport() if client is not None else None
    return transport is not None and not transport.is_active()


def lines_of(output: Any) -> list[str]:
    """What a command said, on either stream."""
    return list(getattr(output, "combined_lines", output))


def until_lost(connector: Any) -> bool:
    """Whether the connection ends within a second. paramiko closes the channels of a broken line before it says that
    the line is: a command that failed without a word may be the first to know."""
    for _ in range(20):
        if is_lost(connector):
            return True
        time.sleep(0.05)
    return False


def mend() -> None:
    """Every SSH connection of this process tells a broken line so."""
    if not hasattr(SSHConnector.run_shell_command, "__wrapped__"):
        SSHConnector.run_shell_command = told(SSHConnector.run_shell_command)
        SSHConnector.connect = kept_alive(SSHConnector.connect)
