"""A cache of slow builds, each found by the digest of its sources.

Packages, the image and the checkpoints are built from sources in this repository; a changed source changes the key, so
that no entry is ever stale. A new entry deletes entries of its kind that were unused for a month. Other modules define
the entries.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rehearsal.places import cache, cache_locked

UNUSED_SECONDS = 30 * 24 * 3600


def digest_of(*parts: str | Path) -> str:
    """Returns sixteen hex digits for texts and for files or trees (their names, execute bits and bytes)."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(b"text\0" + part.encode() + b"\0")
            continue
        for file in _files(part):
            total.update(f"file\0{file.relative_to(part.parent)}\0{file.stat().st_mode & 0o111}\0".encode())
            total.update(file.read_bytes())
    return total.hexdigest()[:16]


def _files(part: Path) -> list[Path]:
    if part.is_file():
        return [part]
    return sorted(file for file in part.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def made_once(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Returns the folder `name`-`key` in the cache, filled by `make` unless it exists.

    Two concurrent processes make it once; a `make` that raises leaves no folder.
    """
    wanted = cache() / f"{name}-{key}"
    with cache_locked(name):
        if wanted.is_dir():
            os.utime(wanted)
            return wanted
        _forget_unused(name)
        print(f"rehearsal: making {name} (kept in {wanted})", file=sys.stderr, flush=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=wanted.parent))
        try:
            scratch.chmod(0o755)
            make(scratch)
            scratch.rename(wanted)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return wanted


def _forget_unused(name: str) -> None:
    """Deletes other entries of this kind that were unused for a month."""
    kind = re.compile(rf"{re.escape(name)}-[0-9a-f]{{16}}")
    for entry in cache().iterdir():
        if kind.fullmatch(entry.name) and time.time() - entry.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)
