"""Downloads folders of wheels for the gateway's benchmark on a machine without a package index.

    python -m benchmarks.gateway.wheels [--python 3.12] [--into build/gateway-wheels]

`gateway-0` has the gateway's own locked packages and OpenAI's library, which reads some of the streams; `peer-0`,
`peer-1` … have LiteLLM's. pip checks each wheel's hash in the lock. No folder is larger than a transfer may be, and
SHA256SUMS in each lists its files. On the other machine: `python3 -m pip install --no-index --no-deps --target DIR
gateway-0/*.whl`.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from roles.gateway.wheels import pip_words, requirements

ROOT = Path(__file__).parents[2]
CLIENTS, PEER = ROOT / "locks/requirements-clients.lock", ROOT / "locks/requirements-peer.lock"
PART_BYTES = 53 * 2**20
"""Bytes of a folder: a transfer may have 64 MiB together with the checkout, which has 9."""
OPENAI = {"openai", "jiter", "sniffio"}
"""Packages that OpenAI's library needs besides the gateway's."""
# Packages that the proxy does not need: tables of costs, clouds' own clients, a database, another server.
LEFT_OUT = {"polars", "polars-runtime-32", "boto3", "botocore", "s3transfer", "psycopg", "psycopg-binary"}
LEFT_OUT |= {"pyroscope-io", "granian", "hf-xet"}


def main(words: list[str] | None = None) -> list[Path]:
    """Returns the folders to send."""
    options = parser().parse_args(words)
    shutil.rmtree(options.into, ignore_errors=True)
    options.into.mkdir(parents=True)
    gateway = requirements(options.python) + chosen(requirements(options.python, CLIENTS), lambda name: name in OPENAI)
    peer = chosen(requirements(options.python, PEER), lambda name: name not in LEFT_OUT)
    sets = {"gateway": gateway, "peer": peer}
    with tempfile.TemporaryDirectory(dir=options.into) as work:
        wheels = {name: fetched(listed, options.python, Path(work) / name) for name, listed in sets.items()}
        parts = {f"{name}-{number}": part for name in sets for number, part in enumerate(packed(wheels[name]))}
        folders = [written(options.into / name, part) for name, part in parts.items()]
    for folder in folders:
        sizes = [wheel.stat().st_size for wheel in folder.glob("*.whl")]
        print(f"{folder}: {len(sizes)} wheels, {sum(sizes) / 2**20:.1f} MiB")
    return folders


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway.wheels", description=(__doc__ or "").split("\n")[0]
    )
    made.add_argument("--python", default="3.12", help="of the machine that they are carried to")
    made.add_argument("--into", type=Path, default=ROOT / "build" / "gateway-wheels")
    return made


def chosen(listed: str, wanted: Callable[[str], bool]) -> str:
    """Returns the wanted entries of a list of requirements, hashes included."""
    entries = re.split(r"\n(?=\S)", listed.rstrip("\n"))
    return "".join(f"{entry}\n" for entry in entries if wanted(entry.partition("==")[0].partition("[")[0]))


def fetched(listed: str, python: str, into: Path) -> list[Path]:
    """Downloads the wheels of these requirements; pip checks each hash."""
    into.mkdir()
    file = into / "requirements.txt"
    file.write_text(listed)
    subprocess.run(pip_words(python, file, into), check=True)
    return sorted(into.glob("*.whl"))


def packed(wheels: list[Path], most: int = PART_BYTES) -> list[list[Path]]:
    """Returns the wheels in as few parts as the largest-first rule needs, none larger than a limit."""
    parts: list[list[Path]] = []
    for wheel in sorted(wheels, key=lambda wheel_file: -wheel_file.stat().st_size):
        size = wheel.stat().st_size
        room = (part for part in parts if sum(wheel_file.stat().st_size for wheel_file in part) + size <= most)
        part = next(room, None)
        if part is None:
            parts.append(part := [])
        part.append(wheel)
    return parts


def written(folder: Path, wheels: list[Path]) -> Path:
    """Writes these wheels and their sums to the folder."""
    folder.mkdir()
    for wheel in wheels:
        wheel.rename(folder / wheel.name)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in sorted(folder.glob("*.whl"))]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    return folder


if __name__ == "__main__":
    main()
