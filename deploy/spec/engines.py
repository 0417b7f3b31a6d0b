"""The store of finished engines for the whole fleet, and the signer whose signature lets an engine be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class EngineStore:
    """A place where the control machine reads and writes engines; their directories are named by content."""

    kind: Literal["directory", "rsync", "rclone"]
    place: str

    @classmethod
    def directory(cls, path: str) -> EngineStore:
        """A directory of the machine that runs pyinfra (a mounted share, for example)."""
        return cls(kind="directory", place=path)

    @classmethod
    def rsync(cls, target: str) -> EngineStore:
        """`host:path`, reached with rsync over SSH and the operator's own ssh configuration."""
        return cls(kind="rsync", place=target)

    @classmethod
    def rclone(cls, remote: str) -> EngineStore:
        """`remote:bucket/path` of the operator's own rclone configuration (S3 and compatible stores)."""
        return cls(kind="rclone", place=remote)


@dataclass(frozen=True, kw_only=True)
class EngineTrust:
    """`key` signs engines here with `ssh-keygen -Y`: a private key file, or the public half of one in the agent.

    `signers` are other public keys (`ssh-ed25519 AAAA… name`) whose engines are loaded too. The private key never
    leaves the control machine.
    """

    key: str
    signers: tuple[str, ...] = ()
