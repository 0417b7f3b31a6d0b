"""An SSH connection that broke is the failure of one host, in a sentence, and not the end of the run for all hosts.

If a connection ends under a question, paramiko raises one of several exceptions, EOFError among them. pyinfra
(3.10.0) takes EOFError for a defect of its own: it prints a traceback and ends the run, for every host. If a
connection ends under a command, paramiko says that the command ended badly, and the operator reads an error without a
word. pyinfra has no hook for either, so `install` replaces two methods of its SSHConnector; every verb calls it first.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import time
from collections.abc import Callable
from typing import Any

from paramiko import SSHException
from pyinfra.api import Host
from pyinfra.connectors.ssh import SSHConnector

KEEP_ALIVE_SECONDS, SILENT_SECONDS = 15, 120
LOST = "the connection to this host is lost; while it is up, what was begun there goes on, and the next run takes it up"


def install(host: Host) -> None:
    """Every SSH connection of this process names its loss and ends after a silence; the open one of `host` too.

    pyinfra connects before it runs a verb, so the first connection of a host is already there.
    """
    if not hasattr(SSHConnector.run_shell_command, "__wrapped__"):
        SSHConnector.run_shell_command = naming_loss(SSHConnector.run_shell_command)
        SSHConnector.connect = kept_alive(SSHConnector.connect)
    keep_alive(getattr(host, "connector", None))


def naming_loss(call: Callable[..., tuple[bool, Any]]) -> Callable[..., tuple[bool, Any]]:
    """`call` of a connector, which raises ConnectionError if its connection is lost: pyinfra fails that host."""

    @functools.wraps(call)
    def calling(connector: Any, *arguments: Any, **more: Any) -> tuple[bool, Any]:
        try:
            done, output = call(connector, *arguments, **more)
        except TimeoutError:
            raise
        except (EOFError, SSHException, OSError):
            raise ConnectionError(LOST) from None
        if not done and (is_lost(connector) or (not lines_of(output) and is_lost_within_a_second(connector))):
            raise ConnectionError(LOST)
        return done, output

    return calling


def kept_alive(connect: Callable[..., None]) -> Callable[..., None]:
    """The `connect` of a connector, with keep-alive messages on its connection."""

    @functools.wraps(connect)
    def connecting(connector: Any) -> None:
        connect(connector)
        keep_alive(connector)

    return connecting


def keep_alive(connector: Any) -> None:
    """The connection, if there is one, asks every KEEP_ALIVE_SECONDS whether somebody is there, and ends after
    SILENT_SECONDS without a sign.

    A host that lost its power under a long command, or a router that forgot the connection, would be waited for without
    end, and all other hosts with it: pyinfra keeps a connection alive only if an ssh_config says
    ServerAliveInterval. With 1 s and 6 s a connection whose packets were all dropped ended after 6.6 s (2026-11-22,
    loopback).
    """
    client = getattr(connector, "client", None)
    transport = client.get_transport() if client is not None else None
    if transport is None:
        return
    transport.set_keepalive(KEEP_ALIVE_SECONDS)
    with contextlib.suppress(AttributeError, OSError):  # through a jump host it is no socket
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_SECONDS * 1000)


def is_lost(connector: Any) -> bool:
    """True if an SSH connection has ended; not if there is none, as to this machine itself."""
    client = getattr(connector, "client", None)
    transport = client.get_transport() if client is not None else None
    return transport is not None and not transport.is_active()


def lines_of(output: Any) -> list[str]:
    return list(getattr(output, "combined_lines", output))


def is_lost_within_a_second(connector: Any) -> bool:
    """True if the connection ends within a second. paramiko closes the channels of a broken connection before it says
    that the connection is broken: a command that failed without a word may be the first to know."""
    for _ in range(20):
        if is_lost(connector):
            return True
        time.sleep(0.05)
    return False
