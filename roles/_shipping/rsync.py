"""rsync between the control machine and one host: it resumes, reports progress, and retries after a broken connection.

pyinfra's `files.rsync` always reports a change, leaves its arguments unquoted, prints nothing until the end and starts
over after a broken connection (pyinfra 3.10.0). This module runs the same rsync, with the connector's ssh settings.
"""

import shlex
import time
from collections.abc import Iterable
from typing import Protocol

import gevent
from gevent.subprocess import PIPE, Popen
from pyinfra import logger
from pyinfra.api import Host

from deploy.inventory.ssh_config import in_brackets
from deploy.models.files import ROOT
from deploy.refusals import Refusal

# Exit codes of protocol, time-out and connection errors; a retry mends no other error (rsync.1).
PASSING_CODES = (10, 12, 30, 35, 255)
RESUMING = ["rsync", "--recursive", "--times", "--copy-links", "--chmod=D755,F644", "--partial-dir=.rsync-partial"]
# After a power cut, files may have the right size and time with other bytes.
BY_CONTENT = "--checksum"
STATE = "  state   no serving program was changed; sent bytes stay, and the next run continues"
PROGRESS = ["--timeout=120", "--info=progress2", "--outbuf=L"]


class Patience(Protocol):
    """Seconds that a transfer may take, and the number of attempts; a role's `Defaults` has both."""

    @property
    def rsync_seconds(self) -> int:
        """Seconds that one attempt may take."""

    @property
    def rsync_attempts(self) -> int:
        """Number of attempts, including the first."""


def transfer(host: Host, argv: list[str], what: str, patience: Patience, names: Iterable[str] = ()) -> bool:
    """True once rsync succeeded; `names` are the lines for `--files-from=-`."""
    listed = "".join(f"{name}\n" for name in names)
    for attempt in range(1, patience.rsync_attempts + 1):
        code, stderr = _once(host, argv, listed, what, patience.rsync_seconds)
        if code == 0:
            return True
        if code not in PASSING_CODES or attempt == patience.rsync_attempts:
            break
        host.log(f"{what}: rsync ended with {code}; continuing in {2**attempt} s")
        gevent.sleep(2**attempt)
    host.log_styled(f"{what}: rsync ended with {code}: {stderr}", fg="red", log_func=logger.error)
    for line in (STATE, f"  try     {attempt_after(stderr)}"):
        host.log_styled(line, fg="red", log_func=logger.error)
    return False


def attempt_after(stderr: str) -> str:
    """Advice for the operator, from rsync's message."""
    if "No space left" in stderr:
        return f"see what fills it (df -h {ROOT} on this host), make room, then run again"
    # The run's own session works: a link may drop packets of full size alone, as ssh's first ones are.
    if any(words in stderr for words in ("timed out", "not responding", "timeout in data")):
        return "send packets of full size to its address (ping -M do -s 1472 -c 3); if they get lost, lower the MTU"
    return "correct the cause that rsync names, then run again"


def _once(host: Host, argv: list[str], listed: str, what: str, seconds: int) -> tuple[int, str]:
    process = Popen(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)
    process.stdin.write(listed)
    process.stdin.close()
    stderr = gevent.spawn(process.stderr.read)
    with gevent.Timeout(seconds, False):
        _log_progress(host, process.stdout, what)
        code = process.wait()
        return code, stderr.get().strip()[-600:]
    process.kill()
    return 30, f"no end after {seconds} s"


def _log_progress(host: Host, lines: Iterable[str], what: str) -> None:
    logged_at = time.monotonic()
    for line in lines:
        if time.monotonic() - logged_at >= 10 and line.strip():
            logged_at = time.monotonic()
            host.log(f"{what}: {' '.join(line.split()[:3])}")


def rsync_target(host: Host, with_sudo: bool, path: str) -> tuple[list[str], str]:
    """rsync's arguments for this host (the connector's ssh settings), and its form of `path` there."""
    program = "sudo -n rsync" if with_sudo else "rsync"
    if host.connector_cls.__name__ == "LocalConnector":
        return ["--rsync-path", program], f"{path}/"
    shell, target = ssh_words(host)
    return ["--rsh", shlex.join(shell), "--rsync-path", program], f"{target}:{path}/"


def ssh_words(host: Host) -> tuple[list[str], str]:
    """The ssh command with the connector's own settings, and its name for the host."""
    data = host.connector.data
    if data["ssh_password"] or data["ssh_key_password"]:
        raise Refusal(
            f"{host.name}: rsync and ssh cannot type a password",
            attempt='use a key without a passphrase or an agent, or fetch_on="host"',
            state="nothing was sent",
        )
    shell = ["ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15"]
    shell += ["-F", data["ssh_config_file"]] if data["ssh_config_file"] else []
    shell += ["-o", f"UserKnownHostsFile={data['ssh_known_hosts_file']}"] if data["ssh_known_hosts_file"] else []
    strict = data["ssh_strict_host_key_checking"]
    shell += ["-o", f"StrictHostKeyChecking={strict}"] if strict else []
    shell += ["-p", str(data["ssh_port"])] if data["ssh_port"] else []
    shell += ["-i", str(data["ssh_key"])] if data["ssh_key"] else []
    user = f"{data['ssh_user']}@" if data["ssh_user"] else ""
    address = in_brackets(data["ssh_hostname"] or host.name)
    return shell, f"{user}{address}"
