"""The root file system of the rehearsal image: Debian 12, the real Triton of `nvidia-pytriton`, torch.

Paths are those of NVIDIA's image (/opt/tritonserver/bin, /opt/tritonserver/backends, user `triton-server` 1000).
rehearsal/llmapi/ has the stand-ins on top of it; rehearsal/triton_image.py makes the image.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from rehearsal import torch_wheel
from rehearsal.apt_sources import debian_sources, handed_on_settings
from rehearsal.places import RehearsalRefused

DEBIAN_PACKAGES = ["python3", "libpython3.11", "ca-certificates", "curl", "libgomp1", "zlib1g", "libstdc++6"]
MPI_PACKAGES = ["openmpi-bin", "python3-mpi4py"]
"""Open MPI itself: ranks of a model over several hosts are started by it and exchange through it."""
TRITON_WHEEL = "nvidia-pytriton==0.7.0"
# numpy 1.26: the wheel's Python stub was built against the old ABI and hands over corrupted inputs under numpy 2.
PYTHON_PACKAGES = [
    "numpy==1.26.4",
    "tokenizers==0.23.3",
    "safetensors==0.8.0",
    "pyyaml==6.0.3",
    "typing_extensions==4.16.0",
    # torch imports both as soon as a module is built on the meta device, as the encoders do.
    "sympy==1.14.0",
    "mpmath==1.3.0",
]
PYTHON = "3.11"
PLATFORMS = [f"manylinux_2_{glibc}_x86_64" for glibc in (35, 28, 24, 17)] + ["manylinux2014_x86_64"]
# First on the interpreter's path; the stub ignores PYTHONPATH.
SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
# Files that serving never reads: C++ headers, build files, test programs.
UNUSED = ["torch/include", "torch/test", "torch/share", "torch/bin/protoc*", "**/*.a", "**/tests", "**/*.pyi"]
DPKG = (
    "path-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\npath-exclude=/usr/share/locale/*\nforce-unsafe-io\n"
)


def make_root(root: Path, work: Path) -> None:
    """Builds the tree in `root`; `work` is scratch space."""
    _debian(root, work)
    _triton(root, work)
    _python(root, work)
    _user(root)


def _debian(root: Path, work: Path) -> None:
    sources, settings, excludes = work / "debian.sources", work / "99-rehearsal", work / "dpkg.cfg"
    sources.write_text("\n".join(source.to_deb822() for source in debian_sources("12")))
    settings.write_text(handed_on_settings())
    excludes.write_text(DPKG)
    command = [
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--quiet"),
        *(f"--include={','.join([*DEBIAN_PACKAGES, *MPI_PACKAGES])}", f"--aptopt={settings}", f"--dpkgopt={excludes}"),
        *("bookworm", str(root), str(sources)),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    # The image does not contain this machine's package sources.
    for left in (root / "etc/apt/sources.list.d", root / "etc/apt/apt.conf.d", root / "var/lib/apt/lists"):
        shutil.rmtree(left, ignore_errors=True)
    (root / "etc/resolv.conf").unlink(missing_ok=True)


def _triton(root: Path, work: Path) -> None:
    wheel = _downloaded([TRITON_WHEEL], work / "triton")[0]
    with ZipFile(wheel) as archive:
        archive.extractall(work / "wheel")
    unpacked, home = work / "wheel/pytriton/tritonserver", root / "opt/tritonserver"
    home.mkdir(parents=True)
    for folder in ("bin", "backends", "caches"):
        shutil.move(unpacked / folder, home / folder)
    shutil.move(unpacked / f"python_backend_stubs/{PYTHON}/triton_python_backend_stub", home / "backends/python")
    shutil.move(work / "wheel/nvidia_pytriton.libs", home / "lib")
    # Programs look for libraries in ../lib, backends four folders up: this link makes both the same folder.
    (root / "nvidia_pytriton.libs").symlink_to("opt/tritonserver/lib")
    for program in ("bin/tritonserver", "backends/python/triton_python_backend_stub"):
        (home / program).chmod(0o755)
    (home / "TRITON_VERSION").write_text("2.51.0\n")


def _python(root: Path, work: Path) -> None:
    site = root / SITE
    site.mkdir(parents=True, exist_ok=True)
    for wheel in [*torch_wheel.wheels(PYTHON), *_downloaded(PYTHON_PACKAGES, work / "wheels")]:
        with ZipFile(wheel) as archive:
            archive.extractall(site)
    for pattern in UNUSED:
        for path in list(site.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    # torch does not import without the mode, which zip archives lose.
    (site / "torch/bin/torch_shm_manager").chmod(0o755)
    _without_unloaded_libraries(root, site)
    _try_torch(root)
    # By the image's own interpreter, because containers run read-only and could not keep what they compile.
    compiled = ["chroot", str(root), "python3", "-m", "compileall", "-q", "-j2", f"/{SITE}"]
    subprocess.run(compiled, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _without_unloaded_libraries(root: Path, site: Path) -> None:
    """Removes CUDA's libraries that importing torch does not load: 1.8 of 2.8 GB stay. A CPU build brings none.

    Some must stay: the default build is linked with them, so `import torch` fails without them.
    """
    libraries = site / "nvidia"
    if not libraries.is_dir():
        return
    linked = ["chroot", str(root), "ldd", f"/{SITE}/torch/lib/libtorch_python.so"]
    shown = subprocess.run(linked, check=True, text=True, capture_output=True).stdout
    loaded = {(root / path.lstrip("/")).resolve() for path in re.findall(r"=> (/\S+)", shown)}
    for path in sorted(libraries.rglob("*")):
        if not path.is_dir() and path.resolve() not in loaded:
            path.unlink()


def _try_torch(root: Path) -> None:
    """Refuses an image whose torch does not import or add."""
    program = "import torch; assert torch.ones(3).sum() == 3"
    tried = subprocess.run(["chroot", str(root), "python3", "-c", program], text=True, capture_output=True)
    if tried.returncode:
        raise RehearsalRefused(
            "torch does not work in the rehearsal image\n"
            f"  seen    {tried.stderr.strip().splitlines()[-1]}\n"
            f"  wanted  a wheel for Python {PYTHON} on Debian 12, and the libraries it is linked with\n"
            f"  try     rm -r {torch_wheel.folder()}, and run again\n"
            "  state   no image was made"
        )


def _downloaded(requirements: list[str], into: Path) -> list[Path]:
    """Downloads wheels of exactly these packages from the package index of this machine's pip."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *platforms]
    answer = subprocess.run(
        [*command, "--python-version", PYTHON, "--dest", str(into), *requirements], text=True, capture_output=True
    )
    if answer.returncode:
        raise RehearsalRefused(
            f"pip found no wheel for the rehearsal image\n  wanted  {', '.join(requirements)}\n"
            f"  said    {answer.stderr.strip().splitlines()[-1]}\n  state   no image was made"
        )
    return sorted(into.glob("*.whl"))


def _user(root: Path) -> None:
    subprocess.run(
        ["chroot", str(root), "useradd", "--uid", "1000", "--create-home", "--shell", "/bin/bash", "triton-server"],
        check=True,
    )
