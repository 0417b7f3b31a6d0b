"""Checks a directory that rsync filled against its manifest, and publishes it by rename.

    host publish STAGING TARGET      expects STAGING/manifest.sha256
    host publish --before STAGING    before rsync continues what another run began

Exit 1 names the first files that differ; nothing is published then, and they are removed: rsync would take one of the
right size and time for the right one, and sends it anew now. Files that the manifest does not name (rsync's leftovers)
are removed.

Before rsync, files that differ are removed too, and that is all. A power cut leaves such files: ext4 writes a file's
size and time before its content, and what was not written yet is read as zeros (seen with Debian 13's 6.12 kernel).
"""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from host.disk import flush, sha256

MANIFEST = "manifest.sha256"


def main(arguments: list[str]) -> int:
    """0 once it is published; 1 after naming files that differ."""
    if arguments[0] == "--before":
        differing(Path(arguments[1]))
        return 0
    staging, target = Path(arguments[0]), Path(arguments[1])
    sums, wrong = differing(staging)
    if wrong:
        print(f"{len(wrong)} of {len(sums)} files do not match {MANIFEST}: {', '.join(wrong[:5])}", file=sys.stderr)
        return 1
    tidy(staging, set(sums) | {MANIFEST})
    settle(staging, target)
    return 0


def settle(staging: Path, target: Path) -> None:
    """What was checked in `staging` is published as `target`, on the disk, in one rename."""
    for path in [*staging.rglob("*"), staging]:
        flush(path)  # on the disk before the name says that it is: no power cut leaves half a published directory
    if target.exists():  # a half one: a published directory has the same manifest and nothing would be sent
        (target / MANIFEST).unlink(missing_ok=True)
        flush(target)
        shutil.rmtree(target)
    staging.rename(target)
    flush(target.parent)


def differing(staging: Path) -> tuple[dict[str, str], list[str]]:
    """The manifest's checksums by name, and the names of what was missing or had another; those files are gone."""
    sums = manifest(staging)
    with ThreadPoolExecutor() as pool:
        digests = dict(zip(sums, pool.map(lambda name: checksum(staging / name), sums), strict=True))
    wrong = [name for name in sums if digests[name] != sums[name]]
    for name in wrong:
        (staging / name).unlink(missing_ok=True)
    return sums, wrong


def manifest(directory: Path) -> dict[str, str]:
    """The sha256 of every file that the directory's manifest names."""
    return dict(line.split("  ", 1)[::-1] for line in (directory / MANIFEST).read_text().splitlines())


def checksum(path: Path) -> str:
    """The file's checksum; empty where there is no file."""
    return sha256(path) if path.is_file() else ""


def tidy(staging: Path, kept: set[str]) -> None:
    """Only what the manifest names is left, owned by root and readable to all."""
    for path in sorted(staging.rglob("*"), reverse=True):
        if path.is_dir():
            path.chmod(0o755) if any(path.iterdir()) else path.rmdir()
        elif str(path.relative_to(staging)) in kept:
            path.chmod(0o644)
        else:
            path.unlink()
    for path in [staging, *staging.rglob("*")]:
        os.chown(path, 0, 0)
    staging.chmod(0o755)
