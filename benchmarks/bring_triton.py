"""Packs the real Triton and its client into one file, for a machine with a GPU and Python but no package index.

    python -m benchmarks.bring_triton build/triton.tar.xz --python 3.12

On that machine, with torch, tokenizers, safetensors, grpcio and libpython of that version installed, two lines are
enough:

    mkdir -p ~/.cache/enginehouse && tar -xJf build/triton.tar.xz -C ~/.cache/enginehouse
    PYTHONPATH=~/.cache/enginehouse/client python -m benchmarks.encoders

Everything comes from this machine's package index. The layout is that of `tests/encoders/real_triton.py`, so its tests
run on that machine too.
"""

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from zipfile import ZipFile

from tests.encoders.real_triton import NUMPY, WHEEL

CLIENT = (
    *("tritonclient==2.73.0", "protobuf==6.33.6", "python-rapidjson==1.25", "geventhttpclient==2.6.1"),
    *("gevent==26.9.0", "greenlet==3.5.6", "zope.event==6.2", "zope.interface==8.7", "brotli==1.2.1"),
)
GLIBC = (39, 35, 34, 31, 28, 27, 24, 17)
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in GLIBC] + ["manylinux2014_x86_64", "manylinux1_x86_64"]
UNUSED = ("tests", "testing", "include", "_examples", "__pycache__")


def main() -> None:
    """Writes the archive named on the command line."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.bring_triton")
    options.add_argument("archive", type=Path)
    options.add_argument("--python", default="3.12", help="of the machine that will unpack it")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bring-") as scratch:
        tree = Path(scratch) / "tree"
        triton(tree / f"triton-stub-{chosen.python}", Path(scratch), chosen.python)
        unpack(download(CLIENT, Path(scratch) / "client", chosen.python), tree / "client")
        pack(tree, chosen.archive)
    print(f"{chosen.archive}: {chosen.archive.stat().st_size / 2**20:.1f} MiB")


def triton(home: Path, scratch: Path, python: str) -> None:
    """Writes tritonserver, the Python backend with the stub of this Python, and the stub's numpy to `home`."""
    unpack(download([WHEEL], scratch / "triton", python), home)
    unpack(download([NUMPY], scratch / "numpy", python), home / "numpy")
    server = home / "pytriton" / "tritonserver"
    stub = server / "python_backend_stubs" / python / "triton_python_backend_stub"
    shutil.move(stub, server / "backends" / "python")
    # The other versions' stubs, and a library that only one of them needs.
    shutil.rmtree(server / "python_backend_stubs")
    for library in (home / "nvidia_pytriton.libs").glob("libpython3*"):
        library.unlink()
    for program in (server / "backends/python" / stub.name, server / "bin" / "tritonserver"):
        program.chmod(0o755)
    for folder in UNUSED:
        for path in [path for path in (home / "numpy").rglob(folder) if path.is_dir()]:
            if path.relative_to(home / "numpy").parts != ("numpy", "testing"):  # numpy imports numpy.testing itself
                shutil.rmtree(path, ignore_errors=True)


def download(requirements: list[str] | tuple[str, ...], into: Path, python: str) -> list[Path]:
    """Downloads wheels of exactly these packages for that Python on x86-64 Linux."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", *platforms, "--python-version", python, "--implementation", "cp"]
    subprocess.run([*command, "--dest", str(into), *requirements], check=True)
    return sorted(into.glob("*.whl"))


def unpack(wheels: list[Path], into: Path) -> None:
    """Unpacks the wheels into `into`."""
    for wheel in wheels:
        with ZipFile(wheel) as archive:
            archive.extractall(into)


def pack(tree: Path, archive: Path) -> None:
    """Packs everything under `tree` into `archive`."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=6) as packed:
        for path in sorted(tree.iterdir()):
            packed.add(path, arcname=path.name)


if __name__ == "__main__":
    main()
