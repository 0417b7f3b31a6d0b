"""Checkpoint folders in a model hub's form: files with checksums, under a commit.

The commit is derived from names and contents, so the same checkpoint has the same revision on every machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OWNER = "rehearsal"
GATED = {"gpt-oss-tiny"}
LARGE_SUFFIXES = (".safetensors", ".bin")
LARGE_BYTES = 10 << 20
BLOCK = 1 << 20
CHECKSUMS = "checksums.json"


@dataclass(frozen=True)
class File:
    """A file of a repository, with a hub's checksums."""

    path: Path
    name: str
    size: int
    git_sha1: str
    sha256: str
    large: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "large", self.name.endswith(LARGE_SUFFIXES) or self.size > LARGE_BYTES)

    @property
    def etag(self) -> str:
        """Returns the checksum that clients compare: sha256 of large files, git's sha1 of small ones."""
        return self.sha256 if self.large else self.git_sha1

    def to_json(self) -> dict[str, object]:
        """Returns a row of `siblings` in the API's form."""
        row: dict[str, object] = {"rfilename": self.name, "size": self.size, "blobId": self.git_sha1}
        return row | {"lfs": {"sha256": self.sha256, "size": self.size, "pointerSize": 134}} if self.large else row


@dataclass(frozen=True)
class Repository:
    """A repository with a single commit."""

    name: str
    files: dict[str, File]
    commit: str
    gated: bool

    def has(self, revision: str) -> bool:
        """Returns True if the revision names the commit, or `main`."""
        return revision in ("main", self.commit)


def read_repository(folder: Path) -> Repository:
    """Returns the repository of a checkpoint folder; its commit is derived from names and contents."""
    known = Checksums(folder.parent / CHECKSUMS)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # hashing gives up the interpreter's lock
        sums = list(threads.map(known.of, paths))
    known.save()
    files = [
        File(path, str(path.relative_to(folder)), path.stat().st_size, *both)
        for path, both in zip(paths, sums, strict=True)
    ]
    listing = "".join(f"{file.git_sha1} {file.name}\n" for file in files)
    commit = hashlib.sha1(listing.encode()).hexdigest()
    return Repository(f"{OWNER}/{folder.name}", {file.name: file for file in files}, commit, folder.name in GATED)


class Checksums:
    """git's sha1 and the sha256 of files, kept beside the checkpoints so that a 16 GB file is read once.

    A file of another size or time of change is read again.
    """

    def __init__(self, remembered: Path) -> None:
        self._path = remembered
        self._known: dict[str, list[Any]] = json.loads(remembered.read_text()) if remembered.exists() else {}
        self._is_new = False

    def of(self, path: Path) -> tuple[str, str]:
        """Returns (git's sha1, sha256)."""
        status = path.stat()
        name, state = str(path.relative_to(self._path.parent)), [status.st_size, status.st_mtime_ns]
        known = self._known.get(name)
        if known is None or known[:2] != state:
            known = self._known[name] = [*state, *_read(path, status.st_size)]
            self._is_new = True
        return known[2], known[3]

    def save(self) -> None:
        """Saves the checksums, so that the next reader need not compute them."""
        if self._is_new:
            unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            unfinished.write_text(json.dumps(self._known))
            unfinished.replace(self._path)


def _read(path: Path, size: int) -> tuple[str, str]:
    git, whole = hashlib.sha1(f"blob {size}\0".encode()), hashlib.sha256()
    with path.open("rb") as content:
        while block := content.read(BLOCK):
            git.update(block)
            whole.update(block)
    return git.hexdigest(), whole.hexdigest()


def repositories(checkpoints: Path) -> dict[str, Repository]:
    """Returns every checkpoint as a repository, by name."""
    published = [read_repository(folder) for folder in sorted(checkpoints.iterdir()) if folder.is_dir()]
    return {repository.name: repository for repository in published}
