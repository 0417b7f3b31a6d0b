"""The gateway's settings together with the releases for which they were made, so that a rollback restores both.

A deploy writes the settings after its last swap. So each swap first copies the present settings, under the names of the
releases that serve until then; `restore` finds a copy by the releases that serve now. Only settings that depend on
releases are taken from the copy: limits, keys, addresses and logins stay those of the last deploy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from host import disk, places

OF_RELEASES = frozenset(
    ("fingerprint", "salt_file", "servers", "models", "aliases", "prices", "default_embedder", "default_reranker")
)
KEPT = 10
"""Copies kept on a host; the oldest is removed first."""


def settings_file() -> Path:
    return places.SETTINGS / "gateway" / "settings.json"


def copy_file() -> Path:
    """The copy for the releases that serve now."""
    links = sorted((places.ROOT / "servers").glob("*/current"))
    releases = [f"{link.parent.name}={Path(os.readlink(link)).name}" for link in links if link.is_symlink()]
    return places.ROOT / "gateway" / f"{hashlib.sha256(' '.join(releases).encode()).hexdigest()[:16]}.json"


def keep() -> None:
    with contextlib.suppress(FileNotFoundError):
        content, copy = settings_file().read_text("utf-8"), copy_file()
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        disk.replace_durably(copy, content)
        copies = sorted(copy.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for old in copies[:-KEPT]:
            old.unlink()


def restore() -> Iterator[str]:
    """Gives the gateway its settings for the current releases. Yields a sentence if that changed them."""
    try:
        kept, present = (json.loads(path.read_text("utf-8")) for path in (copy_file(), settings_file()))
    except FileNotFoundError:
        return
    names = [name for name in kept if name in OF_RELEASES or name in present]
    names += [name for name in present if name not in OF_RELEASES and name not in kept]
    settings = {name: (kept if name in OF_RELEASES else present)[name] for name in names}
    if settings == present:
        return
    file = settings_file()
    new = file.with_name(f".{file.name}.new")
    disk.write(new, f"{json.dumps(settings, indent=2)}\n".encode())
    owner = file.stat()
    os.chown(new, owner.st_uid, owner.st_gid)
    new.chmod(owner.st_mode & 0o777)
    new.rename(file)
    disk.flush(file.parent)
    yield f"the gateway has the settings of these releases again: {', '.join(sorted(settings['models']))}"
