"""The inventory's SSH settings for programs that use OpenSSH: testinfra, tunnels, `enginehouse ask`.

pyinfra reads the settings from host data, and rsync takes them from pyinfra. Both look a host up in the operator's own
`ssh_config_file` by the address they connect to, and so does this module: else some programs would use a jump host of
that file and others would not. A control socket is shared, because otherwise each testinfra check needs a handshake
(gpu-host facts §7).
"""

from collections.abc import Mapping
from typing import Any

OPTIONS = {
    "ssh_port": "Port",
    "ssh_user": "User",
    "ssh_key": "IdentityFile",
    "ssh_known_hosts_file": "UserKnownHostsFile",
}
SHARED = ("BatchMode yes", "ControlMaster auto", "ControlPath ~/.ssh/enginehouse-%C", "ControlPersist 30")
STRICTNESS = {"accept-new": "accept-new", "yes": "yes", "no": "no", "off": "no"}


def address_of(name: str, data: Mapping[str, Any]) -> str:
    return str(data.get("ssh_hostname") or name)


def in_brackets(address: str) -> str:
    """The address as rsync and testinfra need it: IPv6 in brackets, because its colons would end the address."""
    return f"[{address}]" if ":" in address else address


def ssh_config(name: str, data: Mapping[str, Any], include: str = "") -> str:
    """ssh_config text for a host at its address; then `include` (an absolute path), the operator's own file.

    OpenSSH takes the first value it meets, so the inventory's settings win, as in pyinfra. They apply to this host
    alone: a jump host is looked up in the same file.
    """
    block = [f"Host {address_of(name, data)}", *(f"{word} {value}" for word, value in _settings(data).items())]
    shared = ["Match all", *SHARED]
    return "\n".join(
        ["\n  ".join(block), *([f"Match all\n  Include {include}"] if include else []), "\n  ".join(shared), ""]
    )


def ssh_words(name: str, data: Mapping[str, Any]) -> list[str]:
    """The ssh command that logs in to a host with the inventory's settings; the host's address is the last word."""
    file = ["-F", str(data["ssh_config_file"])] if data.get("ssh_config_file") else []
    settings = _settings(data) | {"BatchMode": "yes", "ConnectTimeout": "10"}
    return [
        "ssh",
        *file,
        *(word for pair in settings.items() for word in ("-o", "=".join(pair))),
        address_of(name, data),
    ]


def _settings(data: Mapping[str, Any]) -> dict[str, str]:
    settings = {word: str(data[key]) for key, word in OPTIONS.items() if data.get(key)}
    strict = STRICTNESS.get(str(data.get("ssh_strict_host_key_checking") or ""))
    return settings | ({"StrictHostKeyChecking": strict} if strict else {})
