"""SSH from the outer machine to the machines: keys made here, known host keys, one ssh_config."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from rehearsal.places import Places
from rehearsal.rootfs import LOGIN_USER

SOCKET_PATH_BYTES = 80  # a unix socket path holds 108 bytes and ssh appends a suffix while it connects


def make_key(path: Path) -> None:
    """Makes an ed25519 key pair at `path` and `path`.pub, unless there is one."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rehearsal", "-f", str(path)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def write_config(places: Places, hosts: Iterable[tuple[str, str, str]]) -> None:
    """Writes ssh_config and known_hosts with exactly these hosts, each as (name, address, public host key)."""
    known = sorted(hosts)
    if known:
        control_directory(places).mkdir(mode=0o700, parents=True, exist_ok=True)
    places.known_hosts.write_text("".join(f"{name},{address} {key}\n" for name, address, key in known))
    places.ssh_config.write_text("\n".join(_host(places, name, address) for name, address, _ in known))


def control_directory(places: Places) -> Path:
    """Returns the directory of shared connections' sockets, a short path if the repository's own is long."""
    inside = places.root / "control"
    if len(str(inside)) <= SOCKET_PATH_BYTES:
        return inside
    return Path("/tmp") / f"rehearsal-{hashlib.sha256(str(places.root).encode()).hexdigest()[:12]}"


def close_connection(places: Places, name: str) -> None:
    """Closes shared connections to that machine, so that the next one connects anew."""
    command = ["ssh", "-F", str(places.ssh_config), "-O", "exit", name]
    if (control_directory(places) / name).exists():
        subprocess.run(command, capture_output=True, check=False, timeout=10)


def _host(places: Places, name: str, address: str) -> str:
    control = control_directory(places)
    settings = {
        "HostName": address,
        "User": LOGIN_USER,
        "Port": "22",
        "IdentityFile": str(places.identity_file),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": str(places.known_hosts),
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": "10",
        "ServerAliveInterval": "5",
        "ServerAliveCountMax": "3",
        "ControlMaster": "auto",
        "ControlPath": str(control / "%n"),
        "ControlPersist": "60",
        "LogLevel": "ERROR",
    }
    return f"Host {name}\n" + "".join(f"    {key} {value}\n" for key, value in settings.items())
