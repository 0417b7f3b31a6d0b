"""Measures seconds to make, verify and unpack a bundle, beside cp and sha256sum of the same bytes.

    python -m benchmarks.bundle [MIB] [--folder FOLDER]

It uses one large file and many middling ones of random bytes, so that no content repeats. The bundle's sources are
downloaded before, so that neither side uses the network. Rounds take turns, and the median of each counts. The bound is
1.5 times the slower of the two programs.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from deploy.bundle.contents import Contents, Part
from deploy.io.bundle_store import Store, write_list
from deploy.io.bundle_verify import confirm_whole, opened, unpack
from deploy.spec import EngineTrust

ROUNDS, BOUND = 5, 1.5
MIB = 1 << 20


def written(folder: Path, mib: int) -> list[Path]:
    """Writes half of the bytes to one file, the rest to files of 16 MiB."""
    sizes = [mib // 2, *[16] * (mib // 2 // 16)]
    folder.mkdir()
    files = [folder / f"file-{number:03}" for number in range(len(sizes))]
    with open("/dev/urandom", "rb") as random:
        for file, size in zip(files, sizes, strict=True):
            with file.open("wb") as content:
                for _ in range(size):
                    content.write(random.read(MIB))
    return files


def made(files: list[Path], target: Path, trust: EngineTrust) -> Contents:
    """Returns a signed bundle of the files."""
    store, parts = Store(target), []
    target.mkdir()
    for file in files:
        sha256, size = store.take(file)
        parts.append(Part(path=f"control/{file.name}", sha256=sha256, size=size, source="here"))
    contents = Contents(parts=tuple(parts))
    write_list(store, contents, trust)
    return contents


def seconds(action: Callable[[], object]) -> float:
    """Returns the wall time of an action."""
    began = time.monotonic()
    action()
    return time.monotonic() - began


def measured(files: list[Path], work: Path, trust: EngineTrust) -> dict[str, float]:
    """Returns seconds of one round of all actions, and deletes their output."""
    copy, bundle, out = work / "copy", work / "bundle", work / "out"
    for folder in (copy, bundle, out):
        shutil.rmtree(folder, ignore_errors=True)
    names = [str(file) for file in files]
    copy.mkdir()
    return {
        "cp": seconds(lambda: subprocess.run(["cp", *names, str(copy)], check=True)),
        "sha256sum": seconds(lambda: subprocess.run(["sha256sum", *names], check=True, stdout=subprocess.DEVNULL)),
        "make": seconds(lambda: made(files, bundle, trust)),
        "verify": seconds(lambda: confirm_whole(bundle, opened(bundle, trust))),
        "unpack": seconds(lambda: unpack(bundle, opened(bundle, trust), out)),
    }


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    words = argparse.ArgumentParser(prog="python -m benchmarks.bundle", description=__doc__.splitlines()[0])
    words.add_argument("mib", type=int, nargs="?", default=2048, help="bytes of the files, in MiB")
    words.add_argument("--folder", help="a folder on the disk to measure")
    return words


def main() -> int:
    """Returns 0 if making, verifying and unpacking are within the bound."""
    chosen = parser().parse_args()
    mib: int = chosen.mib
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        work = Path(folder)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(work / "key")], check=True)
        files, trust = written(work / "files", mib), EngineTrust(key=str(work / "key"))
        rounds = [measured(files, work, trust) for _ in range(ROUNDS)]
    medians = {name: statistics.median(timed[name] for timed in rounds) for name in rounds[0]}
    slower = max(medians["cp"], medians["sha256sum"])
    for name, median in medians.items():
        print(f"{name:10} {median:8.2f} s  {mib / median:8.0f} MiB/s  {median / slower:5.2f} of the slower")
    return 0 if all(medians[name] <= BOUND * slower for name in ("make", "verify", "unpack")) else 1


if __name__ == "__main__":
    sys.exit(main())
