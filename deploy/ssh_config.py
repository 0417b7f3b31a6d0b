"""The inventory's SSH settings as one ssh_config, for programs that speak OpenSSH: testinfra and tunnels.

pyinfra reads the settings from host data itself; without this file the smoke tests could reach another machine than
the deploy did. A control socket is shared, because each testinfra check is else a handshake (gpu-host facts §7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

OPTIONS = {
    "ssh_hostname": "HostName",
    "ssh_port": "Port",
    "ssh_user": "User",
    "ssh_key": "IdentityFile",
    "ssh_known_hosts_file": "UserKnownHostsFile",
}
SHARED = ("BatchMode yes", "ControlMaster auto", "ControlPath ~/.ssh/enginehouse-%C", "ControlPersist 30")
STRICTNESS = {"accept-new": "accept-new", "yes": "yes", "no": "no", "off": "no"}


def ssh_config(hosts: Iterable[tuple[str, Mapping[str, Any]]], include: str = "") -> str:
    """ssh_config text: a block per host, then `include` (an absolute path), the operator's own file, for the rest.

    OpenSSH takes the first value it meets, so what the inventory says wins, as it does in pyinfra.
    """
    blocks = [_block(name, data) for name, data in hosts]
    shared = "\n  ".join(["Match all", *SHARED]) + "\n"
    return "\n".join([*blocks, *([f"Match all\nInclude {include}\n"] if include else []), shared])


def ssh_words(name: str, data: Mapping[str, Any]) -> list[str]:
    """The ssh command that logs in to a host by the inventory's settings; the host's name is the last word."""
    file = ["-F", str(data["ssh_config_file"])] if data.get("ssh_config_file") else []
    settings = {word: str(data[key]) for key, word in OPTIONS.items() if data.get(key)}
    if strict := STRICTNESS.get(str(data.get("ssh_strict_host_key_checking") or "")):
        settings["StrictHostKeyChecking"] = strict
    settings |= {"BatchMode": "yes", "ConnectTimeout": "10"}
    return ["ssh", *file, *(word for pair in settings.items() for word in ("-o", "=".join(pair))), name]


def _block(name: str, data: Mapping[str, Any]) -> str:
    lines = [f"Host {name}", *(f"  {word} {data[key]}" for key, word in OPTIONS.items() if data.get(key))]
    strict = STRICTNESS.get(str(data.get("ssh_strict_host_key_checking") or ""))
    return "\n".join([*lines, *([f"  StrictHostKeyChecking {strict}"] if strict else [])]) + "\n"
