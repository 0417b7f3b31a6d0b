"""Addresses of machines in the form of ssh: `user@host:port`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deploy.inventory.login_texts import hosts_in
from deploy.refusals import refuse

SSH_PORT = 22
TARGET = re.compile(r"(?!-)(?:([^@\s]+)@)?(?:\[([\da-fA-F:.%]+)\]|([^@:/\s\[\]]+)|([\da-fA-F:]+))(?::(\d+))?")
"""User, then the host in brackets, as a name, or as a bare IPv6 address; then the port."""


@dataclass(frozen=True)
class Target:
    """The address of a machine for ssh: `user@host:port`; only the host is required."""

    host: str
    user: str = ""
    port: int = SSH_PORT

    @classmethod
    def of(cls, text: str) -> Target:
        """The target that an operator typed. Raises: a Refusal for a text without a host or with a wrong port.

        An IPv6 address stands in brackets if a port follows it.
        """
        parts = TARGET.fullmatch(text)
        if parts and ":" in (parts[1] or ""):
            user, host = parts[1].partition(":")[0], text.rpartition("@")[2]
            raise refuse(
                "literal-secret",
                "a password stands in the command, which the shell's history keeps",
                where=f"{user}@{host}",
                seen="a user, a colon and more, not shown",
                wanted="a login with a key: user@host",
                attempt=f"ssh-copy-id {user}@{host}; then enginehouse init {user}@{host}",
            )
        if not parts or not 0 < int(parts[5] or SSH_PORT) < 65_536:
            raise refuse(
                "no-target",
                f"{text!r} names no machine to ask",
                where=text,
                seen=repr(text),
                wanted="user@host or user@host:port; an IPv6 address in brackets",
                attempt=f"enginehouse init {' '.join(several).replace(chr(34), '')}"
                if (several := hosts_in(text))
                else f"enginehouse init {text.replace(',', ' ')}"
                if re.fullmatch(r"[\w.@:-]+(?:,[\w.@:-]+)+", text)
                else "enginehouse init ubuntu@203.0.113.7:22",
            )
        return cls(host=parts[2] or parts[3] or parts[4], user=parts[1] or "", port=int(parts[5] or SSH_PORT))

    @property
    def login(self) -> str:
        return f"{self.user}@{self.host}" if self.user else self.host

    def __str__(self) -> str:
        """`user@host:port`, as `of` reads it."""
        host = f"[{self.host}]" if ":" in self.host and self.port != SSH_PORT else self.host
        address = host if self.port == SSH_PORT else f"{host}:{self.port}"
        return f"{self.user}@{address}" if self.user else address
