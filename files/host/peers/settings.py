"""The run's settings for a host among its peers: the files that it shares, and its peers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host.publish import MANIFEST


@dataclass(frozen=True)
class Offer:
    """The files to fetch: the digest of their torrent, and (bytes, sha256) of every file by name."""

    digest: str
    files: dict[str, tuple[int, str]]

    @classmethod
    def of(cls, content: dict[str, Any]) -> Offer:
        """The settings in a JSON text. Raises KeyError, TypeError or ValueError."""
        files = {name: (int(size), str(sha256)) for name, (size, sha256) in content["files"].items()}
        return cls(str(content["digest"]), files)

    def text(self) -> str:
        return json.dumps({"digest": self.digest, "files": self.files}, sort_keys=True) + "\n"

    def manifest(self) -> str:
        return "".join(f"{sha256}  {name}\n" for name, (_, sha256) in sorted(self.files.items()))

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.files.values())


@dataclass(frozen=True)
class Settings:
    """The settings that the run wrote; times are in seconds, speeds in bytes a second, and speed 0 is unlimited."""

    target: Path
    offer: Offer | None
    here: str
    peers: dict[str, str]
    folder: Path
    """Folder with everything that the receiving user may write, on the file system of `target`."""
    bytes_per_second: int = 0
    seed_seconds: int = 3600
    patience_seconds: int = 60
    """Seconds within which at least `least_bytes_per_second` must have come, else the peers have failed."""
    least_bytes_per_second: int = 1 << 16

    @classmethod
    def read(cls, path: Path) -> Settings:
        """The settings in a file."""
        content = json.loads(path.read_text())
        offer = Offer.of(content["offer"]) if content.get("offer") else None
        paths = {name: Path(content[name]) for name in ("target", "folder")}
        return cls(**(content | paths | {"offer": offer}))

    def sibling(self, suffix: str) -> Path:
        return self.target.with_name(f".{self.target.name}.{suffix}")

    @property
    def staging(self) -> Path:
        """The directory for the peers' files; the torrent's folder has the published directory's name."""
        return self.folder / "files" / self.target.name

    @property
    def is_published(self) -> bool:
        return (self.target / MANIFEST).exists()
