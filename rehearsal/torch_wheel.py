"""torch for the virtual environment and the rehearsal image: downloaded once, from the first of three places.

    1. a CPU build from the index that this machine's pip is set to      about 200 MB
    2. the CPU build from PyTorch's own index (the Makefile's TORCH_INDEX), tried once and for a short time
    3. the default build with the CUDA libraries it imports              2.7 GB, announced before the download

`python -m rehearsal.torch_wheel` installs torch into the environment it runs in; `wheels` is what the image takes. The
image has Python 3.11: if the environment has another version, the image gets a wheel of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rehearsal.places import RehearsalRefused, cache, cache_locked

VERSION = "2.13.0"
CPU_BUILD = f"torch=={VERSION}+cpu"
DEFAULT_BUILD = f"torch=={VERSION}"
# Newest first. Debian 12, the image's, has glibc 2.36; a wheel for these runs on every system that has Python 3.11.
PLATFORMS = [f"manylinux_2_{glibc}_x86_64" for glibc in range(35, 16, -1)] + ["manylinux2014_x86_64"]
INDEX_SECONDS = 20
"""Seconds for an index to name a wheel. The limit does not end a running download."""
SOCKET_SECONDS = 10
SIZES = "2.7 GB to download and keep (torch 527 MB, the rest CUDA libraries), 5 GB in .venv"
"""Sizes of torch 2.13.0+cu130 for x86-64, seen 2026-11-22."""
SMALL = "about 200 MB"


def main() -> int:
    """Installs torch into this environment; returns 0 on success."""
    parser = argparse.ArgumentParser(prog="python -m rehearsal.torch_wheel", description=__doc__.splitlines()[0])
    parser.parse_args()
    try:
        install()
    except RehearsalRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


def install() -> None:
    """Installs torch into this environment, from the wheels in the cache. Raises RehearsalRefused without a wheel."""
    wheel, *libraries = wheels(f"{sys.version_info.major}.{sys.version_info.minor}")
    # The default build needs the libraries beside it; a CPU build needs only small packages that every index has.
    sources = ["--no-index", "--find-links", str(wheel.parent)] if libraries else []
    subprocess.run([*_pip("install"), "--quiet", *sources, str(wheel)], check=True)


def wheels(python: str) -> list[Path]:
    """Returns torch's wheel for that Python version ("3.11"), then the wheels that the default build needs.

    Raises RehearsalRefused when none of the three places has torch.
    """
    kept = folder()
    kept.mkdir(parents=True, exist_ok=True)
    with cache_locked("torch"):
        wheel = _kept(kept, python, "+cpu") or _cpu_build(kept, python)
        return [wheel] if wheel else _default_build(kept, python)


def folder() -> Path:
    """Returns the directory of the wheels, for all checkouts of this user."""
    return cache() / f"torch-{VERSION}"


def _kept(kept: Path, python: str, label: str) -> Path | None:
    """Returns the wheel of an earlier run."""
    tag = "cp" + python.replace(".", "")
    return next(iter(sorted(kept.glob(f"torch-{VERSION}{label}-{tag}-{tag}-*.whl"))), None)


def _cpu_build(kept: Path, python: str) -> Path | None:
    _report(f"{CPU_BUILD} for Python {python}: asking the configured pip ({SMALL})")
    problem = _downloaded(kept, python, [CPU_BUILD, "--no-deps"])
    index = os.environ.get("TORCH_INDEX", "")
    if problem and index:
        _report(f"  the configured pip has none; asking {index}, once and for at most {INDEX_SECONDS} s")
        problem = _downloaded(kept, python, [CPU_BUILD, "--no-deps", *index_options(index)], INDEX_SECONDS)
        if problem:
            _report(f"  {index} gave none: {problem}")
    return _kept(kept, python, "+cpu")


def _default_build(kept: Path, python: str) -> list[Path]:
    wheel = _kept(kept, python, "")
    if wheel:
        _report(f"  no CPU build was found, so the default build of an earlier run is taken: {wheel}")
    else:
        _report(f"  no CPU build was found, so the default build is taken: {SIZES}.")
        _report("  Interrupt now if that is too much, and name an index or a directory that has the CPU build:")
        _report("    make … TORCH_INDEX=<address of a package index, or a directory of wheels>")
        # Files that another version of Python downloaded are not downloaded again.
        if problem := _downloaded(kept, python, [DEFAULT_BUILD, "--find-links", str(kept)]):
            raise RehearsalRefused(
                f"there is no {DEFAULT_BUILD} for Python {python}, neither as a CPU build nor as the default build\n"
                f"  seen    {problem}\n"
                "  wanted  a package index, or a directory of wheels, that has it\n"
                "  try     make … TORCH_INDEX=<address of a package index, or a directory of wheels>\n"
                "  state   torch is not installed, and no image was made"
            )
        wheel = _kept(kept, python, "")
        assert wheel, "pip downloaded a wheel of another version than it was asked for"
    return [wheel, *sorted(kept.glob("nvidia_*.whl"))]


def index_options(index: str) -> list[str]:
    """Returns pip's options for TORCH_INDEX: a package index, or a plain directory of wheels (path or file://)."""
    once = ["--retries", "0", "--timeout", str(SOCKET_SECONDS)]
    parts = urlsplit(index)
    if parts.scheme in ("http", "https"):
        return ["--index-url", index, *once]
    directory = Path(unquote(parts.path) if parts.scheme == "file" else index).expanduser().resolve()
    if any(directory.glob("*.whl")):
        return ["--no-index", "--find-links", str(directory)]
    return ["--index-url", directory.as_uri(), *once]


def _downloaded(kept: Path, python: str, words: list[str], seconds: float = 0) -> str:
    """Downloads wheels with pip to `kept`, torch's last; returns the reason of a failure or ""."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    options = ["--only-binary=:all:", "--no-cache-dir", "--progress-bar=off", "--python-version", python, *platforms]
    with tempfile.TemporaryDirectory(dir=kept, prefix=".download-") as scratch:
        problem = _run([*_pip("download"), *options, "--dest", scratch, *words], seconds)
        if problem:
            return problem
        for wheel in sorted(Path(scratch).glob("*.whl"), key=lambda path: path.name.startswith("torch-")):
            wheel.rename(kept / wheel.name)
    return ""


def _run(command: list[str], seconds: float) -> str:
    """Returns the reason for pip's failure, or "". Stops pip if it has named no wheel after `seconds` (0: never)."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    too_late, last = threading.Event(), ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as pip:

        def give_up() -> None:
            too_late.set()
            pip.kill()

        timer = threading.Timer(seconds or threading.TIMEOUT_MAX, give_up)
        timer.daemon = True
        timer.start()
        assert pip.stdout
        for line in pip.stdout:
            last = line.strip() or last
            if ".whl" in line:
                timer.cancel()
        timer.cancel()
    if pip.returncode == 0:
        return ""
    return f"no answer within {seconds:g} s" if too_late.is_set() else last or f"pip ended with {pip.returncode}"


def _pip(verb: str) -> list[str]:
    return [sys.executable, "-m", "pip", verb, "--disable-pip-version-check"]


def _report(text: str) -> None:
    print(f"torch: {text}" if not text.startswith(" ") else text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
