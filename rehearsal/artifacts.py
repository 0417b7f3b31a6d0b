"""Things that take long to make, made once and found again by the digest of what made them.

Packages, the image and the checkpoints are derived from sources in this repository; a changed source is a changed key,
so nothing here is ever stale. What nobody has used for a month goes when a newer one of its kind is made. What the
things are is decided elsewhere.
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
    """Sixteen hex digits of texts and of files or trees (their names, execute bits and bytes)."""
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
    """The folder `name`-`key` in the cache, filled by `make` unless it is there already.

    Two processes that want the same thing make it once; a `make` that raises leaves nothing behind.
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
    """Others of this kind that no rehearsal has asked for in a month are gone."""
    kind = re.compile(rf"{re.escape(name)}-[0-9a-f]{{16}}")
    for entry in cache().iterdir():
        if kind.fullmatch(entry.name) and time.time() - entry.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)
