"""Turns a broken SSH connection into the failure of one host, with a message, instead of the end of the whole run.

If a connection ends during a fact, paramiko raises one of several exceptions, EOFError among them. pyinfra (3.10.0)
treats EOFError as its own defect: it prints a traceback and ends the run, for every host. If a connection ends during a
command, paramiko reports a failed command, and the operator gets an error without a message. pyinfra has no hook for
either, so `install` replaces two methods of its SSHConnector; every verb calls it first. The same methods explain a
full disk, whose only sign is a line such as `cat: write error: No space left on device`, and a wait for apt's locks.
"""

import contextlib
import functools
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

import gevent
from paramiko import SSHException
from pyinfra import logger
from pyinfra.api import Host, StringCommand
from pyinfra.connectors.ssh import SSHConnector

from deploy.models.files import FEW_INODES, FEW_MIB, ROOT

OPEN_FILES = 65_536, 10_240  # the wanted limit, then macOS's own maximum (OPEN_MAX of its syslimits.h)
KEEP_ALIVE_SECONDS, SILENT_SECONDS = 15, 120
FULL = "No space left on device"
_FREE = f"for i in '' i; do df -P$i / /tmp /var/lib/docker {ROOT} 2>/dev/null; done; true"
APT, APT_SECONDS = "/patient-apt ", 5
_HOLDERS = (
    "grep ' POSIX ' /proc/locks | while read -r n t m w p x; do"
    ' ls -l /proc/$p/fd 2>/dev/null | grep -qE "/var/(lib/dpkg|lib/apt/lists|cache/apt/archives)/lock" || continue;'
    " q=$p; while [ ${q:-0} -gt 1 ]; do ! grep -qs patient-apt /proc/$q/cmdline || continue 2;"
    " q=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$q/status); done;"
    ' echo "$(cat /proc/$p/comm) (process $p)"; done | sort -u'
)
"""Shell that prints the processes that hold locks of apt or dpkg, without those that `patient-apt` started itself."""
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
        as_user = {key: value for key, value in more.items() if key not in ("_stdin", "_timeout")}

        def ask(shell: str) -> list[str]:
            return lines_of(call(connector, StringCommand(shell), **as_user)[1])

        is_apt = any(APT in str(argument) for argument in arguments)
        watcher = gevent.spawn(tell_of_apt_locks, connector, ask) if is_apt else None
        try:
            done, output = call(connector, *arguments, **more)
        except TimeoutError:
            raise
        except (EOFError, SSHException, OSError):
            raise ConnectionError(LOST) from None
        finally:
            if watcher:
                watcher.kill()
        if not done and any(FULL in line for line in lines_of(output)):
            with contextlib.suppress(Exception):  # the failure itself has been reported
                explain_full_disk(connector, ask(_FREE))
        if not done and (is_lost(connector) or (not lines_of(output) and is_lost_within_a_second(connector))):
            raise ConnectionError(LOST)
        return done, output

    return calling


def tell_of_apt_locks(connector: Any, ask: Callable[[str], list[str]]) -> None:
    """Logs who else holds apt's locks, while a command of apt waits for them; for ever, so the caller ends it."""
    holders: list[str] = []
    with contextlib.suppress(EOFError, SSHException, OSError):  # the command itself reports a lost connection
        while True:
            gevent.sleep(APT_SECONDS)
            before, holders = holders, [line for line in ask(_HOLDERS) if line]
            if holders and holders != before:
                line = f"apt waits up to 15 minutes for {', '.join(holders)}, which holds its locks; let it finish"
                connector.host.log(line, log_func=logger.info)


def explain_full_disk(connector: Any, output: list[str]) -> None:
    """Logs which file systems of the host are full, by the output of `df` and `df -i`, and the next command."""
    rows = [line.split() for line in output]
    full = [row[-1] for row in rows if len(row) == 6 and row[4].rstrip("%") in ("99", "100")]
    mounts = list(dict.fromkeys(full))
    if not mounts:  # ENOSPC is also the error of quotas and of inotify's limits
        return
    for line in (
        "a file system of this host is full",
        f"  found   {', '.join(mounts)} without free space or inodes",
        f"  wanted  {FEW_MIB} MiB and {FEW_INODES:,} inodes at least, and room for what is transferred",
        "  state   files are replaced whole: the earlier ones stay, and the serving release continues",
        f"  try     du -xm --max-depth=2 {mounts[0]} | sort -n | tail on the host, make room, then run again",
    ):
        connector.host.log_styled(line, fg="red", log_func=logger.error)


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
    return [getattr(line, "line", line) for line in getattr(output, "combined_lines", output)]


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
