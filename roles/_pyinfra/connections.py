"""Turns a broken SSH connection into the failure of one host, with a message, instead of the end of the whole run.

If a connection ends during a fact, paramiko raises one of several exceptions, EOFError among them. pyinfra (3.10.0)
treats EOFError as its own defect: it prints a traceback and ends the run, for every host. If a connection ends during a
command, paramiko reports a failed command, and the operator gets an error without a message. pyinfra has no hook for
either, so `install` replaces two methods of its SSHConnector; every verb calls it first.
"""

import contextlib
import functools
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

from paramiko import SSHException
from pyinfra.api import Host
from pyinfra.connectors.ssh import SSHConnector

OPEN_FILES = 65_536, 10_240  # the wanted limit, then macOS's own maximum (OPEN_MAX of its syslimits.h)
KEEP_ALIVE_SECONDS, SILENT_SECONDS = 15, 120
LOST = "the connection to this host is lost; while the host is up, begun work continues, and the next run resumes it"


def allow_open_files() -> None:
    """Raises this process's soft limit of open files towards the hard one, since each host takes one open connection.

    Soft limits of 256 (macOS) or 1,024 (many Linux logins) would end a run of more hosts than that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in OPEN_FILES:
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return


def install(host: Host) -> None:
    """Makes every SSH connection of this process report its loss and end after a silence; the open one of `host` too.

    pyinfra connects before it runs a verb, so the first connection of a host already exists.
    """
    if not hasattr(SSHConnector.run_shell_command, "__wrapped__"):
        SSHConnector.run_shell_command = naming_loss(SSHConnector.run_shell_command)
        SSHConnector.connect = kept_alive(SSHConnector.connect)
    keep_alive(getattr(host, "connector", None))


def naming_loss(call: Callable[..., tuple[bool, Any]]) -> Callable[..., tuple[bool, Any]]:
    """A connector's `call` that raises ConnectionError if its connection is lost, so that pyinfra fails that host."""

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
    """A connector's `connect` that also sends keep-alive messages on the connection."""

    @functools.wraps(connect)
    def connecting(connector: Any) -> None:
        connect(connector)
        keep_alive(connector)

    return connecting


def keep_alive(connector: Any) -> None:
    """Sends a keep-alive request every KEEP_ALIVE_SECONDS; the connection ends after SILENT_SECONDS without an answer.

    Without keep-alives the run, with all other hosts, would wait for ever for a host that lost its power during a long
    command, or for a router that dropped the connection: pyinfra keeps a connection alive only if an ssh_config sets
    ServerAliveInterval. With 1 s and 6 s a connection whose packets were all dropped ended after 6.6 s (2026-11-22,
    loopback).
    """
    client = getattr(connector, "client", None)
    transport = client.get_transport() if client is not None else None
    if transport is None:
        return
    transport.set_keepalive(KEEP_ALIVE_SECONDS)
    with contextlib.suppress(AttributeError, OSError):  # a jump host's channel is no socket
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_SECONDS * 1000)


def is_lost(connector: Any) -> bool:
    """True if an SSH connection has ended; False without an SSH connection, as for this machine itself."""
    client = getattr(connector, "client", None)
    transport = client.get_transport() if client is not None else None
    return transport is not None and not transport.is_active()


def lines_of(output: Any) -> list[str]:
    return list(getattr(output, "combined_lines", output))


def is_lost_within_a_second(connector: Any) -> bool:
    """True if the connection ends within a second.

    paramiko closes the channels of a broken connection before it reports the connection as broken, so a command that
    failed without a message may be the first sign.
    """
    for _ in range(20):
        if is_lost(connector):
            return True
        time.sleep(0.05)
    return False
