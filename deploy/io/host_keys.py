"""Pinned host keys: the known_hosts file of an inventory has a key for every host that the run logs in to.

OpenSSH and paramiko skip lines that they cannot read, and not the same ones. The host of a skipped line would refuse
every login in the middle of a run.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from deploy.inventory.ssh_config import address_of
from deploy.io.local_paths import local_path
from deploy.refusals import Refusal, refuse

LINE = re.compile(r"(\S+) ((?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+) ([A-Za-z0-9+/]+=*)(?: [^\r]*)?")
"""Hosts, type, key and a comment. Markers such as @cert-authority work only with OpenSSH."""
EXAMPLE = "cat /etc/ssh/ssh_host_ed25519_key.pub in the provider's console; inventories/README.md, Host keys"


def host_key_problems(inventory: Iterable[Any], root: Path) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for every host whose key is checked but missing in the named file.

    A host whose name or address an ssh_config may change is left to ssh.
    """
    for host in inventory:
        data = host.data.dict()
        file = data.get("ssh_known_hosts_file")
        if not isinstance(file, str) or not file or data.get("ssh_strict_host_key_checking") != "yes":
            continue
        try:
            lines = local_path(file, root).read_text("utf-8").splitlines()
        except (OSError, ValueError) as error:
            yield host.name, _unreadable(file, str(error))
            continue
        rows = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
        wrong = [(number, line) for number, line in rows if not _is_key(line)]
        yield from ((host.name, _no_key(file, number)) for number, _ in wrong)
        port = data.get("ssh_port") or 22
        if not isinstance(port, int) or not isinstance(data.get("ssh_hostname") or "", str):
            continue  # the fleet has refused this host
        address = address_of(host.name, data)
        names = {address, f"[{address}]:{port}"} if port == 22 else {f"[{address}]:{port}"}
        pinned = {name for _, line in rows for name in line.split(" ")[0].split(",")}
        is_hashed = any(name.startswith("|") for name in pinned)
        if not (wrong or is_hashed or names & pinned or data.get("ssh_config_file")):
            yield host.name, _not_pinned(file, sorted(names)[-1])


def _is_key(line: str) -> bool:
    """True if the key on the line is of the type named before it."""
    if not (parts := LINE.fullmatch(line)):
        return False
    try:
        key = base64.b64decode(parts[3], validate=True)
    except ValueError:
        return False
    head = len(parts[2]).to_bytes(4, "big") + parts[2].encode()
    return key.startswith(head) and len(key) > len(head)


def _unreadable(file: str, reason: str) -> Refusal:
    return refuse(
        "no-known-hosts",
        f"the pinned host keys in {file} cannot be read",
        where="ssh_known_hosts_file",
        seen=reason,
        wanted="a file beside the inventory, with a line for each host",
        attempt=EXAMPLE,
    )


def _no_key(file: str, number: int) -> Refusal:
    return refuse(
        "no-host-key-line",
        f"line {number} of {file} is not a host key in a form that every program here reads",
        where="ssh_known_hosts_file",
        seen=f"line {number}",
        wanted="ADDRESS TYPE KEY, one space between: 203.0.113.7 ssh-ed25519 AAAA…",
        attempt=EXAMPLE,
    )


def _not_pinned(file: str, name: str) -> Refusal:
    return refuse(
        "host-not-pinned",
        f"{file} has no key of {name}, and only a pinned key lets in",
        where="ssh_known_hosts_file",
        seen=f"no line that begins with {name}",
        wanted=f"{name} ssh-ed25519 AAAA…",
        attempt=EXAMPLE,
    )
