"""Operations on files and directories that survive a power cut, a kill or a full disk: write, replace and remove."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

FEW_MIB = 64
"""MiB that a container's own files need; preflight wants as many."""


def full(directory: Path) -> str:
    """The sentence about a file system without room for another container; empty if it has room, or is unknown.

    On such a file system neither a new release could start nor the earlier one again.
    """
    try:
        free_mib = shutil.disk_usage(directory).free // 2**20
    except OSError:
        return ""
    return f"{free_mib} MiB are free in {directory}, {FEW_MIB} are needed for a container" if free_mib < FEW_MIB else ""


def flush(path: Path, follow: bool = True) -> None:
    """Syncs the file's content, or the directory's entries, so that they survive a power cut.

    Raises OSError if the disk could not write it; without `follow` also if `path` is a link.
    """
    handle = os.open(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, content: bytes) -> None:
    """Writes the file and syncs it. Its directory's entry may not be on the disk yet."""
    with path.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def replace(path: Path, content: str) -> None:
    """Writes `content` so that no reader sees half of it. After a power cut the file may have its old content."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(content)
    new.rename(path)


def replace_durably(path: Path, content: str) -> None:
    """Replaces the file's content durably."""
    new = path.with_name(f".{path.name}.new")
    write(new, content.encode())
    new.rename(path)
    flush(path.parent)


def set_aside(directory: Path) -> Path:
    """The directory's new name, `.NAME.removing`, so that no program finds a partial one under the old name.

    The rename is synced before the first file is removed, so that this also holds after a power cut. Raises OSError.
    """
    removing = directory.with_name(f".{directory.name}.removing")
    directory.rename(removing)
    flush(directory.parent)
    return removing


def remove(directory: Path) -> None:
    """Removes the directory. An interruption leaves nothing under its name.

    Files that cannot be removed stay under another name and disturb no server.
    """
    with contextlib.suppress(OSError):
        shutil.rmtree(set_aside(directory))


def sha256(path: Path) -> str:
    """The file's checksum, read in chunks: Ubuntu 22.04 has Python 3.10, without hashlib.file_digest."""
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()
