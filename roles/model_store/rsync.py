"""rsync from the control machine to one host: resumes, tells its progress, tries again where the line broke."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import gevent
from gevent.subprocess import PIPE, Popen
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

from deploy.errors import Refusal
from roles.model_store.defaults import Defaults

# Protocol, time-out and connection trouble; anything else will not get better by itself (rsync.1).
PASSING_CODES = (10, 12, 30, 35, 255)


class Rsync(PyinfraCommand):
    """`names` of `source` are in `staging` on the host, whatever was there before."""

    def __init__(self, source: Path, names: list[str], staging: str, what: str, settings: Defaults) -> None:
        super().__init__()
        self.source, self.names, self.staging, self.what, self.settings = source, names, staging, what, settings

    def __repr__(self) -> str:
        return f"rsync {self.source}/ to {self.staging}/"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once everything is there."""
        argv = [*self._flags(), *destination(host, bool(connector_arguments.get("_sudo")), self.staging)]
        argv.insert(-1, f"{self.source}/")
        for attempt in range(1, self.settings.rsync_attempts + 1):
            code, said = self._once(host, argv)
            if code == 0:
                return True
            if code not in PASSING_CODES or attempt == self.settings.rsync_attempts:
                break
            host.log(f"{self.what}: rsync ended with {code}; continuing in {2**attempt} s")
            gevent.sleep(2**attempt)
        host.log_styled(f"{self.what}: rsync ended with {code}: {said}", fg="red", log_func=logger.error)
        return False

    def _flags(self) -> list[str]:
        flags = ["rsync", "--recursive", "--times", "--copy-links", "--chmod=D755,F644", "--partial-dir=.rsync-partial"]
        flags += ["--files-from=-", "--timeout=120", "--info=progress2", "--outbuf=L"]
        return flags + ([f"--bwlimit={self.settings.bandwidth_limit}"] if self.settings.bandwidth_limit else [])

    def _once(self, host: Host, argv: list[str]) -> tuple[int, str]:
        process = Popen(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)
        process.stdin.write("".join(f"{name}\n" for name in self.names))
        process.stdin.close()
        said = gevent.spawn(process.stderr.read)
        with gevent.Timeout(self.settings.rsync_seconds, False):
            self._tell(host, process.stdout)
            code = process.wait()
            return code, said.get().strip()[-600:]
        process.kill()
        return 30, f"no end after {self.settings.rsync_seconds} s"

    def _tell(self, host: Host, lines: object) -> None:
        told = time.monotonic()
        for line in lines:  # type: ignore[attr-defined]
            if time.monotonic() - told >= 10 and line.strip():
                told = time.monotonic()
                host.log(f"weights of {self.what}: {' '.join(line.split()[:3])}")


def destination(host: Host, with_sudo: bool, path: str) -> list[str]:
    """rsync's last arguments for this host: how to get there (the connector's own ssh settings) and where to put it."""
    program = "sudo -n rsync" if with_sudo else "rsync"
    if host.connector_cls.__name__ == "LocalConnector":
        return ["--rsync-path", program, f"{path}/"]
    data = host.connector.data
    if data["ssh_password"] or data["ssh_key_password"]:
        raise Refusal(
            f"{host.name}: rsync cannot type an ssh password",
            attempt='use a key without a passphrase or an agent, or fetch_on="host"',
            state="no weights were sent",
        )
    shell = ["ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15"]
    shell += ["-F", data["ssh_config_file"]] if data["ssh_config_file"] else []
    shell += ["-o", f"UserKnownHostsFile={data['ssh_known_hosts_file']}"] if data["ssh_known_hosts_file"] else []
    strict = data["ssh_strict_host_key_checking"]
    shell += ["-o", f"StrictHostKeyChecking={strict}"] if strict else []
    shell += ["-p", str(data["ssh_port"])] if data["ssh_port"] else []
    shell += ["-i", str(data["ssh_key"])] if data["ssh_key"] else []
    user = f"{data['ssh_user']}@" if data["ssh_user"] else ""
    address = data["ssh_hostname"] or host.name
    return ["--rsh", shlex.join(shell), "--rsync-path", program, f"{user}{address}:{path}/"]
