"""A reboot with its wait and confirmation, the only way in which roles restart a host."""

import time
from collections.abc import Callable, Iterator

from paramiko import SSHException
from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State, StringCommand
from pyinfra.connectors.util import clear_askpass_cache

from roles._pyinfra import lock
from roles._pyinfra.steps import Command

BOOT_ID = "cat /proc/sys/kernel/random/boot_id"

AFTER: list[Callable[[Host], bool]] = []
"""Called after each boot of a host: forwards the ports that were open before it; False if a port could not be
forwarded."""


def reboot(before: str, limit_seconds: int) -> Iterator[Command]:
    """Commands that reboot the host and wait for it; `before` is its current boot id."""
    # Detached, because an SSH session that ends with the host reports no exit status.
    yield StringCommand("(sleep 1; systemctl reboot) </dev/null >/dev/null 2>&1 &")
    yield FunctionCommand(wait_for_boot, (before, limit_seconds), {})


def wait_for_boot(state: State, host: Host, before: str, limit_seconds: int) -> bool:
    """True if the host answers with another boot id within the limit, over a new connection, and this run holds it.

    Only the boot id is proof: an answer alone may come from a host that is about to go down, and a container reports
    the uptime of its machine.
    """
    deadline = time.monotonic() + limit_seconds
    lock.let_go(host)  # the connection that holds the lock ends with the boot
    clear_askpass_cache(host)  # the boot deletes pyinfra's askpass file, so sudo must not use its path
    while time.monotonic() < deadline:
        time.sleep(2)
        after = _boot_id(host)
        if after and after != before:
            host.log_styled("rebooted: boot id changed", fg="green")
            return lock.take_back(host) and all(again(host) for again in AFTER)
    text = f"the host did not come back from its reboot within {limit_seconds} seconds; look at its console"
    host.log_styled(text, fg="red", log_func=logger.error)
    return False


def _boot_id(host: Host) -> str:
    """The boot id over a new connection; empty while no connection can be made."""
    client = getattr(host.connector, "client", None)
    if client is not None:
        client.close()
    host.connected = False
    try:
        host.connector.disconnect()
        host.connect(show_errors=False)
        if not host.connected:
            return ""
        answered, output = host.run_shell_command(StringCommand(BOOT_ID), _timeout=20)
    except (OSError, EOFError, SSHException, TimeoutError):
        return ""
    return output.stdout.strip() if answered else ""
