"""Verifies a directory by its manifest as root, and publishes it by rename.

    host publish STAGING TARGET      expects STAGING/manifest.sha256, as rsync left it
    host publish --before STAGING    before rsync resumes another run's transfer

Fetches (host.fetch) and sharing (host.peers) receive as separate users. Their root step uses the functions below:
`take` first, so that no other user can change a byte after its check.

Exit 1 names the first files that differ; nothing is published then, and these files are removed so that rsync sends
them again: rsync would keep a file of the right size and time. Files outside the manifest (rsync's leftovers) are
removed.

`--before` only removes files that differ. A power cut leaves such files: ext4 writes a file's size and time before its
content, and content that was not written yet reads as zeros (seen with Debian 13's 6.12 kernel).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from host.disk import flush, sha256

MANIFEST = "manifest.sha256"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
MOST_BYTES = 2**26
"""Bytes of a manifest, which another user may have written; a thousand files take 100 KB."""
MOST_FOLDERS = 16
"""Deepest nesting of directories; no model has more than three."""
ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")


def main(arguments: list[str]) -> int:
    """0 once the directory is published; 1 after naming files that differ."""
    if arguments[0] == "--before":
        take(Path(arguments[1]))
        differing(Path(arguments[1]))
        return 0
    staging, target = Path(arguments[0]), Path(arguments[1])
    take(staging)
    sums, wrong = differing(staging)
    if wrong:
        print(f"{len(wrong)} of {len(sums)} files do not match {MANIFEST}: {', '.join(wrong[:5])}", file=sys.stderr)
        return 1
    tidy(staging, set(sums) | {MANIFEST})
    move_into_place(staging, target)
    return 0


class Owner(NamedTuple):
    """The owner of a directory, and the modes of directories and files in it."""

    uid: int
    gid: int
    folder_mode: int
    file_mode: int


def take(directory: Path, user: str = "") -> None:
    """Gives everything in `directory` only to the user; without `user` to the caller, readable by all.

    Entries that another user could still write, or that are not plain files, are removed and not followed: links, hard
    links, pipes, sockets and devices. A directory changes its owner before its entries are examined. Raises OSError or
    KeyError.
    """
    account = pwd.getpwnam(user) if user else None
    owner = (
        Owner(account.pw_uid, account.pw_gid, 0o700, 0o600)
        if account
        else Owner(os.geteuid(), os.getegid(), 0o755, 0o644)
    )
    handle = os.open(directory, FOLDER)
    try:
        _take_folder(handle, owner, directory, 1)
    finally:
        os.close(handle)


def _take_folder(folder: int, owner: Owner, place: Path, depth: int) -> None:
    """Takes an open directory and its content; `place` is its name for messages and removal."""
    _seize(folder, owner, owner.folder_mode)
    for name in os.listdir(folder):
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(kind) and depth < MOST_FOLDERS:
            inner = os.open(name, FOLDER, dir_fd=folder)
            try:
                _take_folder(inner, owner, place / name, depth + 1)
            finally:
                os.close(inner)
        elif stat.S_ISDIR(kind):
            subprocess.run(["rm", "-rf", "--", str(place / name)], check=True)
        elif not (stat.S_ISREG(kind) and _take_file(folder, name, owner)):
            print(f"{place / name} is removed: it is not a plain file of this directory only", file=sys.stderr)
            os.unlink(name, dir_fd=folder)


def _take_file(folder: int, name: str, owner: Owner) -> bool:
    """True once the file belongs to the owner; False if the file has a second name, or is open for writing."""
    handle = os.open(name, FILE, dir_fd=folder)
    try:
        status = os.fstat(handle)
        # A second name of the file may be in another directory, whose file must stay unchanged.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return False
        _seize(handle, owner, owner.file_mode)
        return not _has_writer(handle)
    finally:
        os.close(handle)


def _seize(handle: int, owner: Owner, mode: int) -> None:
    """Gives the open file or directory to `owner`, with exactly these modes."""
    for access_list in ACCESS_LISTS:
        with contextlib.suppress(OSError):
            os.removexattr(handle, access_list)
    os.fchown(handle, owner.uid, owner.gid)
    os.fchmod(handle, mode)


def _has_writer(handle: int) -> bool:
    """True if a process has the file open, or mapped, for writing: the kernel gives no read lease on such a file."""
    try:
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as problem:
        # Otherwise the file system has no leases; the processes of the unit have ended in any case.
        return problem.errno == errno.EAGAIN
    fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def move_into_place(staging: Path, target: Path) -> None:
    """Publishes the verified `staging` as `target`, durably, in one rename."""
    for path in [*staging.rglob("*"), staging]:
        flush(path)  # content first, then the name: a power cut cannot leave a partial directory under the name
    # Incomplete: a complete directory would have the same manifest, and no transfer would have begun.
    if target.exists():
        (target / MANIFEST).unlink(missing_ok=True)
        flush(target)
        shutil.rmtree(target)
    staging.rename(target)
    flush(target.parent)


def differing(staging: Path) -> tuple[dict[str, str], list[str]]:
    """The manifest's checksums by name, and the names of missing or differing files; differing files are removed."""
    sums = manifest(staging)
    with ThreadPoolExecutor() as pool:
        digests = dict(zip(sums, pool.map(lambda name: checksum(staging / name), sums), strict=True))
    wrong = [name for name in sums if digests[name] != sums[name]]
    for name in wrong:
        (staging / name).unlink(missing_ok=True)
    return sums, wrong


def manifest(directory: Path) -> dict[str, str]:
    """The sha256 of every file in the directory's manifest. Raises ValueError for a name that leads out of it."""
    with (directory / MANIFEST).open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{MANIFEST} has more than {MOST_BYTES >> 20} MiB")
    sums = dict(line.split("  ", 1)[::-1] for line in content.decode().splitlines())
    for name in sums:
        if not is_name(name):
            raise ValueError(f"{MANIFEST} names {name[:80]!r}, which is not a file in {directory}")
    return sums


def is_name(name: str) -> bool:
    """True for the usual spelling of a file's path within a directory: no `..`, `.` or `//`, and not the manifest's.

    A file is looked up by its path, and kept by its spelling: with a second spelling it would be verified, then
    removed.
    """
    parts = PurePosixPath(name).parts
    is_inside = ".." not in parts and len(parts) <= MOST_FOLDERS and not name.startswith("/")
    return is_inside and str(PurePosixPath(name)) == name != MANIFEST and name.isprintable()


def checksum(path: Path) -> str:
    return sha256(path) if path.is_file() else ""


def tidy(staging: Path, kept: set[str]) -> None:
    """Removes everything outside the manifest, and makes the rest readable by all; `take` has given it to root."""
    for path in sorted(staging.rglob("*"), reverse=True):
        if path.is_dir():
            path.chmod(0o755) if any(path.iterdir()) else path.rmdir()
        elif str(path.relative_to(staging)) in kept:
            path.chmod(0o644)
        else:
            path.unlink()
    staging.chmod(0o755)
