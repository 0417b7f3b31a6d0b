"""Files that ssh reads for a login: a private key and its configuration, each by the path of a file."""

from collections.abc import Iterator, Mapping
from typing import Any

from deploy.inventory.path_texts import slip_of
from deploy.refusals import Refusal, refuse, secret_in, shortened


def login_file_problems(data: Mapping[str, Any]) -> Iterator[Refusal]:
    """A refusal for each named file that ssh could not use, and for a public key instead of a private key."""
    yield from _public_key(data)
    yield from _paths(data)


def _public_key(data: Mapping[str, Any]) -> Iterator[Refusal]:
    """A refusal for the public half of a key, which cannot log in."""
    value = data.get("ssh_key")
    if isinstance(value, str) and value.endswith(".pub") and value.isprintable():
        yield refuse(
            "unsafe-login",
            "`ssh_key` of a host is the public half of a key, which belongs onto the host",
            where="ssh_key",
            seen=shortened(value),
            wanted="the path of the private key, which stays on this machine",
            attempt=f'"ssh_key": "{value.removesuffix(".pub")}"',
        )


def _paths(data: Mapping[str, Any]) -> Iterator[Refusal]:
    for key in ("ssh_key", "ssh_config_file", "ssh_known_hosts_file"):
        value = data.get(key)
        if not isinstance(value, str) or secret_in(value) or value.startswith("-"):
            continue
        problem, attempt = slip_of(value)
        if key == "ssh_known_hosts_file" and value == "/dev/null":
            problem, attempt = "keeps no key, so that any machine may answer as this host", f"leave {key} out"
        if problem:
            yield refuse(
                "no-path",
                f"`{key}` {problem}",
                where=key,
                seen=shortened(value),
                wanted="the path of a file on this machine",
                attempt=attempt,
            )
