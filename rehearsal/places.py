"""Paths of a rehearsal's files, so that no other module joins paths to the state or the cache.

State belongs to one repository checkout and goes away with `down`; the cache belongs to the user and is shared by all.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NUMBERS = range(30)
REPOSITORY = Path(__file__).resolve().parent.parent


class RehearsalRefused(Exception):
    """A person's mistake or a missing need, as one readable message without a stack trace."""


@dataclass(frozen=True)
class Places:
    """A rehearsal: its state directory and its number, which also selects the bridge and the addresses."""

    root: Path
    number: int = 0

    @classmethod
    def here(cls) -> Places:
        """Returns this checkout's rehearsal; two rehearsals on one machine need different
        ENGINEHOUSE_REHEARSAL_NUMBERs."""
        wanted = os.environ.get("ENGINEHOUSE_REHEARSAL_NUMBER", "0")
        if wanted not in map(str, NUMBERS):
            raise RehearsalRefused(
                f"ENGINEHOUSE_REHEARSAL_NUMBER is {wanted!r}\n  wanted  0 to 29\n  state   nothing was started"
            )
        number = int(wanted)
        return cls(REPOSITORY / ".rehearsal" if number == 0 else REPOSITORY / ".rehearsal" / f"number-{number}", number)

    @property
    def machines(self) -> Path:
        """Returns the parent of one directory per machine."""
        return self.root / "machines"

    @property
    def snapshots(self) -> Path:
        """Returns the parent of one directory per snapshot; they outlive `down`."""
        return self.root / "snapshots"

    @property
    def identity_file(self) -> Path:
        """Returns the private key of the login user on every machine of this rehearsal."""
        return self.root / "id_ed25519"

    @property
    def ssh_config(self) -> Path:
        """Returns the file from which ssh, rsync, pyinfra and testinfra know the machines by name."""
        return self.root / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        """Returns host keys, known before first contact because they are made on this side."""
        return self.root / "known_hosts"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lets a single `up` or `down` run per rehearsal."""
        self.root.mkdir(parents=True, exist_ok=True)
        with _lock(self.root / "lock"):
            yield


def cache() -> Path:
    """Returns the directory of root file systems and other costly, unchanging files."""
    chosen = os.environ.get("ENGINEHOUSE_CACHE")
    shared = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "enginehouse"
    return (Path(chosen) if chosen else shared) / "rehearsal"


@contextlib.contextmanager
def cache_locked(name: str) -> Iterator[None]:
    """Locks the named cache entry; other processes wait and then find it finished."""
    cache().mkdir(parents=True, exist_ok=True)
    with _lock(cache() / f"{name}.lock"):
        yield


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    # The lock is the kernel's, so a killed holder leaves none behind.
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
