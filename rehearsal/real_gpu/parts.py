"""Packs files for a machine with a GPU and no network, in parts small enough for one transfer each.

    python -m rehearsal.real_gpu.parts [--python 3.12] [--into build/real-gpu] [--vllm] [--peer]

Four archives: the control root (Debian 12 with nspawn, ssh, the registry and this repository's Python packages), the
root of the deployed machine, its apt packages, and Triton. With `--vllm` a fifth: vLLM and the packages that it needs
besides those of the machine; with `--peer` LiteLLM, which is measured beside the gateway. `parts.tsv` names them. They
are made once and kept; a part is named by its hash, so an existing one need not be sent again. The checkout itself is
sent unchanged.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gateway.wheels import LEFT_OUT as PEER_LEFT_OUT
from benchmarks.gateway.wheels import PEER, chosen
from rehearsal import apt_repository, debian_archive, rootfs
from rehearsal.apt_repository import SigningKey
from rehearsal.apt_sources import debian_sources, handed_on_settings
from rehearsal.artifacts import digest_of, made_once
from rehearsal.places import REPOSITORY, RehearsalRefused, cache
from rehearsal.triton_root import DPKG, PLATFORMS
from roles._shipping import repairs
from roles.gateway import wheels
from roles.gateway.defaults import Defaults

PART_BYTES = 28_000_000
CONTROL_PACKAGES = (
    *("python3", "systemd-container", "openssh-client", "rsync", "iptables", "iproute2", "pigz", "curl", "gnupg"),
    *("gpg-agent", "docker-registry", "openssl", "procps", "util-linux", "xz-utils", "ca-certificates", "apt-utils"),
    *("netbase", "kmod"),
)
CONTROL_PYTHON = "3.11"
MACHINE = "13"
MACHINE_PYTHON = "3.13"
MACHINE_PACKAGES = (
    *("ca-certificates", "curl", "iptables", "openssh-client", "python3", "rsync", "systemd-timesyncd"),
    *("libseccomp2", "init-system-helpers", "libsystemd0", "nftables", "python3-venv"),
)
"""Packages that the roles need from Debian, and dependencies of Docker's and the toolkit's."""
# Locked packages that no code here imports: bindings for cards, a load generator, a downloader.
LEFT_OUT = {"cuda-bindings", "cuda-core", "cuda-pathfinder", "cuda-python", "perf-analyzer", "hf-xet"}
FOR_SMOKE_TESTS = {"tokenizers", "safetensors"}
VLLM_LOCK = "rehearsal/real_gpu/requirements-vllm.lock"
VLLM_GLIBC = 35
"""The least glibc 2.N of the machine with the GPU: wheels for older versions run there, too."""
PINNED = re.compile(r"^(?P<name>[a-z0-9_.-]+)==")
MACHINE_SUITE = "trixie"


@dataclass(frozen=True)
class Part:
    """A piece of an archive: archive, number from 0, sha256, bytes."""

    archive: str
    number: int
    sha256: str
    size: int

    @property
    def file(self) -> str:
        """Returns the file's name in transport."""
        return f"{self.archive}-{self.number:02}-{self.sha256[:12]}"

    def row(self) -> str:
        """Returns the part's line in parts.tsv, which `drive` reads."""
        return f"{self.archive}\t{self.number}\t{self.file}\t{self.sha256}\t{self.size}\n"


def prepare(into: Path, python: str, with_vllm: bool = False, with_peer: bool = False) -> list[Part]:
    """Writes every part and `parts.tsv` to `into`, and deletes earlier parts."""
    archives = {
        "control.tar.xz": control_root(),
        "machine.tar.xz": machine_root(),
        "packages.tar": packages(),
        "triton.tar.xz": triton(python),
        **({"vllm.tar.xz": vllm(python)} if with_vllm else {}),
        **({"peer.tar.xz": peer(python)} if with_peer else {}),
    }
    into.mkdir(parents=True, exist_ok=True)
    parts = [part for name, archive in archives.items() for part in split(name, archive, into)]
    (into / "parts.tsv").write_text("".join(part.row() for part in parts))
    wanted = {part.file for part in parts} | {"parts.tsv"}
    for path in into.iterdir():
        if path.is_file() and path.name not in wanted:
            path.unlink()
    return parts


def split(name: str, archive: Path, into: Path) -> list[Part]:
    """Splits the archive into parts of at most PART_BYTES in `into`; keeps existing parts."""
    parts = []
    for number, block in enumerate(_blocks(archive)):
        part = Part(name, number, hashlib.sha256(block).hexdigest(), len(block))
        if not (into / part.file).exists():
            # Written under another name first: a name with a hash must be a complete part.
            (into / ".new").write_bytes(block)
            (into / ".new").replace(into / part.file)
        parts.append(part)
    return parts


def _blocks(archive: Path) -> Iterator[bytes]:
    with archive.open("rb") as content:
        while block := content.read(PART_BYTES):
            yield block


def control_root() -> Path:
    """Returns the archive of the root from which services, machine and deploy run."""
    locked = _locked()
    gateway = wheels.requirements(MACHINE_PYTHON)
    key = digest_of(" ".join(CONTROL_PACKAGES), DPKG, locked, gateway, inspect.getsource(_make_control_root))
    return _archive("real-gpu-control", key, "control.tar.xz", lambda root: _make_control_root(root, locked))


def _make_control_root(root: Path, locked: str) -> None:
    work = root.parent
    sources, settings, excludes = work / "debian.sources", work / "99-rehearsal", work / "dpkg.cfg"
    sources.write_text("\n".join(source.to_deb822() for source in debian_sources("12")))
    settings.write_text(handed_on_settings())
    excludes.write_text(DPKG)
    command = [
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--quiet"),
        *(f"--include={','.join(CONTROL_PACKAGES)}", f"--aptopt={settings}", f"--dpkgopt={excludes}"),
        *("bookworm", str(root), str(sources)),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for left in ("etc/apt/sources.list.d", "etc/apt/apt.conf.d", "var/lib/apt/lists", "var/cache/apt"):
        shutil.rmtree(root / left, ignore_errors=True)
    requirements = work / "requirements.txt"
    requirements.write_text(locked)
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"),
            *("--require-hashes", "--only-binary=:all:", "--python-version", CONTROL_PYTHON, *platforms),
            *("--target", str(root / f"usr/local/lib/python{CONTROL_PYTHON}/dist-packages"), "-r", str(requirements)),
        ],
        check=True,
    )
    # The rehearsal runs the pyinfra beside its own interpreter.
    local = root / "usr/local/bin"
    (local / "python3").symlink_to("/usr/bin/python3")
    (local / "pyinfra").write_text("#!/usr/local/bin/python3\nfrom pyinfra_cli.main import cli\n\ncli()\n")
    (local / "pyinfra").chmod(0o755)
    # A deploy runs pip to fetch the image's repairs and the gateway's packages; this root has both already.
    fetched = root / "root/.cache/enginehouse/wheels"
    for wheel in repairs.wheels(repairs.REPAIRS):
        repairs.unpacked(wheel, fetched)
    gateway = wheels.fetch(MACHINE_PYTHON, fetched / wheels.digest(MACHINE_PYTHON), Defaults())
    if gateway:
        raise RehearsalRefused(str(gateway))
    # A nameserver that does not answer: a loopback address would be refused, and all needed names are in /etc/hosts.
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    (root / "etc/resolv.conf").write_text("nameserver 10.213.0.1\n")
    (root / "etc/machine-id").write_text(hashlib.md5(b"rehearsal control root").hexdigest() + "\n")


def _locked() -> str:
    """Returns lines of the lock files, hashes included, for the packages that the control side imports."""
    paragraphs = [
        *_pinned((REPOSITORY / "locks/requirements.lock").read_text(), lambda name: name not in LEFT_OUT),
        *_pinned((REPOSITORY / "locks/requirements-test.lock").read_text(), lambda name: name in FOR_SMOKE_TESTS),
    ]
    return "".join(paragraphs)


def _pinned(text: str, is_wanted: Callable[[str], bool]) -> Iterator[str]:
    keep = False
    for line in text.splitlines(keepends=True):
        if match := PINNED.match(line):
            keep = is_wanted(match["name"])
        if keep:
            yield line


def machine_root() -> Path:
    """Returns the archive of the bare Debian of the deployed machine."""
    root = rootfs.root_file_system(MACHINE)
    return _archive("real-gpu-machine", digest_of(root.name), "machine.tar.xz", None, root)


def packages() -> Path:
    """Returns the archive of the apt tree: Docker and the toolkit for the machine's release, and Debian's packages."""
    served, root = apt_repository.repository(), rootfs.root_file_system(MACHINE)
    key = digest_of(served.name, root.name, " ".join(MACHINE_PACKAGES), MACHINE_SUITE)

    def fill(tree: Path) -> None:
        others = shutil.ignore_patterns(*(suite for suite in apt_repository.SUITES if suite != MACHINE_SUITE))
        shutil.copytree(served, tree, symlinks=True, ignore=others)
        with tempfile.TemporaryDirectory(prefix="apt-") as state, tempfile.TemporaryDirectory(prefix="gpg-") as home:
            debs = tree / "debian"
            debs.mkdir()
            debian_archive.download_missing(MACHINE, MACHINE_PACKAGES, root, debs, Path(state))
            signing = SigningKey(Path(home))
            signing.index_flat(debs, origin="Debian", label="Debian")
            signing.publish(debs)

    return _archive("real-gpu-packages", key, "packages.tar", fill)


def triton(python: str) -> Path:
    """Returns the archive of the real Triton with the stub of that Python, its numpy, and the clients' packages."""
    key = digest_of(python, REPOSITORY / "benchmarks/bring_triton.py", REPOSITORY / "tests/encoders/real_triton.py")
    command = [sys.executable, "-m", "benchmarks.bring_triton", "--python", python]

    def bring(into: Path) -> None:
        subprocess.run([*command, str(into / "triton.tar.xz")], check=True, cwd=REPOSITORY)

    return made_once("real-gpu-triton", key, bring) / "triton.tar.xz"


def vllm(python: str) -> Path:
    """Returns the archive of the packages in the lock of vLLM for that Python, without torch."""
    return _packages("real-gpu-vllm", python, REPOSITORY / VLLM_LOCK, "vllm.tar.xz")


def peer(python: str) -> Path:
    """Returns the archive of LiteLLM's proxy and the packages that it starts with; the machine has numpy."""
    lock = cache() / "real-gpu-peer-requirements.txt"
    lock.write_text(chosen(wheels.requirements(python, PEER), lambda name: name not in {*PEER_LEFT_OUT, "numpy"}))
    return _packages("real-gpu-peer", python, lock, "peer.tar.xz")


def _packages(kind: str, python: str, lock: Path, name: str) -> Path:
    """Returns the archive of the packages in a lock file for that Python, without others that they need."""

    def fill(tree: Path) -> None:
        platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(VLLM_GLIBC, 4, -1)]
        platforms += ["--platform=manylinux2014_x86_64", "--platform=manylinux1_x86_64"]
        words = ["--quiet", "--no-deps", "--no-compile", "--require-hashes", "--only-binary=:all:", *platforms]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *words]
        subprocess.run([*pip, f"--python-version={python}", f"--target={tree}", "-r", str(lock)], check=True)

    return _archive(kind, digest_of(python, lock), name, fill)


def _archive(kind: str, key: str, name: str, fill: Callable[[Path], None] | None, root: Path | None = None) -> Path:
    """Returns the file `name`, packed once from `root` or from a tree that `fill` makes."""

    def make(into: Path) -> None:
        with tempfile.TemporaryDirectory(dir=cache(), prefix=f".{kind}-") as work:
            tree = root or Path(work) / "root"
            if fill:
                fill(tree)
            # bzip2 or zstd would unpack faster, but the target machine has neither.
            words = ["--use-compress-program=xz -T0 -6"] if name.endswith(".xz") else []
            everything = ["--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*", "-C", str(tree), "-c", "."]
            subprocess.run(["tar", "--numeric-owner", *words, "-f", str(into / name), *everything], check=True)

    return made_once(kind, key, make) / name


def main() -> int:
    """Writes the parts to the folder on the command line."""
    parser = argparse.ArgumentParser(prog="make real-h100", description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="3.12", help="of the machine they are for, which has torch for its GPU")
    parser.add_argument("--into", type=Path, default=REPOSITORY / "build/real-gpu")
    parser.add_argument("--vllm", action="store_true", help="vLLM too, for the fourth sitting: 430 MB more")
    parser.add_argument("--peer", action="store_true", help="LiteLLM too, whose cost the fourth sitting measures")
    options = parser.parse_args()
    try:
        if platform.machine() != "x86_64":
            raise RehearsalRefused(f"the parts are for x86-64, and this computer is {platform.machine()}")
        parts = prepare(options.into, options.python, options.vllm, options.peer)
    except RehearsalRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    for part in parts:
        print(f"{part.size / 1e6:7.1f} MB  {options.into / part.file}")
    print(
        f"{sum(part.size for part in parts) / 1e6:7.1f} MB  in {len(parts)} parts; then, on the machine with the GPU:"
    )
    print("            bash rehearsal/real_gpu/drive receive PART…, and bash rehearsal/real_gpu/drive run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
