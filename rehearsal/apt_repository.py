"""A signed apt repository in the shapes operators meet: NVIDIA's, Docker's, the container toolkit's and Canonical's.

Paths, package names and versions are the upstream ones, so that an inventory only names another mirror. The signing key
exists for one build: the public key is published beside the packages, the secret key is deleted. rehearsal/web.py
serves the tree over HTTP; packages/ holds the packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from rehearsal import ubuntu
from rehearsal.apt_sources import system
from rehearsal.artifacts import digest_of, made_once
from rehearsal.debs import PACKAGES, build_deb
from rehearsal.engine_debs import SUITES, build_engine

PORT = 8480
NAME = "apt.rehearsal.internal"
URL = f"http://{NAME}:{PORT}"

DRIVERS = ["595.91.07", "580.178.04", "580.95.05"]
TOOLKITS = ["1.20.0", "1.19.1"]
NVIDIA_DISTRIBUTIONS = ["debian12", "debian13", "ubuntu2204", "ubuntu2404", "ubuntu2604"]
NVIDIA_PATH = "compute/cuda/repos"
DOCKER_PATHS = {suite: f"linux/{system(release).partition('-')[0]}" for suite, release in SUITES.items()}
TOOLKIT_PATH = "libnvidia-container/stable/deb"
ONCE = {"nvidia-driver-pinning-@BRANCH@", "linux-headers-@KERNEL_NAME@", "cuda-keyring"}


def repository() -> Path:
    """Returns the served tree, built unless the cache has it; `key.asc` and `key.gpg` at its top are the public key."""
    here = Path(__file__).parent
    code = [here / "debs.py", here / "apt_repository.py"]
    return made_once("apt", digest_of(_kernel(), str(ubuntu.RELEASES), URL, PACKAGES, *code, engine().name), _build)


def engine() -> Path:
    """Returns the Docker packages by suite, built unless the cache has them."""
    here = Path(__file__).parent
    key = digest_of(str(SUITES), PACKAGES / "docker", here / "engine_debs.py", here / "debs.py")
    return made_once("docker-debs", key, _build_engine)


def _build_engine(into: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="engine-") as work:
        build_engine(into, Path(work))


def _build(root: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="gpg-") as home:
        key = SigningKey(Path(home))
        key.publish(root)
        _nvidia(root, key)
        _docker(root, key)
        _toolkit(root, key)
        _canonical(root, key)
    (root / "cuda").symlink_to("compute/cuda")


def _kernel() -> str:
    return os.uname().release


def _nvidia(root: Path, key: SigningKey) -> None:
    first = root / NVIDIA_PATH / NVIDIA_DISTRIBUTIONS[0] / "x86_64"
    for upstream in DRIVERS:
        for source in sorted((PACKAGES / "nvidia").iterdir()):
            if source.name not in ONCE:
                build_deb(source, _driver_holes(upstream), first)
    for branch in sorted({upstream.split(".")[0] for upstream in DRIVERS}):
        build_deb(PACKAGES / "nvidia/nvidia-driver-pinning-@BRANCH@", {"BRANCH": branch}, first)
    kernel = {"KERNEL": _kernel(), "KERNEL_NAME": _kernel().lower().replace("_", "-")}
    build_deb(PACKAGES / "nvidia/linux-headers-@KERNEL_NAME@", kernel, first)
    debs = sorted(first.glob("*.deb"))
    for distribution in NVIDIA_DISTRIBUTIONS:
        _nvidia_distribution(root, distribution, debs, key)


def _driver_holes(upstream: str) -> dict[str, str]:
    return {"UPSTREAM": upstream, "VERSION": f"{upstream}-1", "BRANCH": upstream.split(".")[0]}


def _nvidia_distribution(root: Path, distribution: str, debs: list[Path], key: SigningKey) -> None:
    folder = root / NVIDIA_PATH / distribution / "x86_64"
    folder.mkdir(parents=True, exist_ok=True)
    for deb in debs:
        if deb.parent != folder:
            (folder / deb.name).hardlink_to(deb)
    holes = {"DISTRIBUTION": distribution, "APT_URL": URL}
    build_deb(PACKAGES / "nvidia/cuda-keyring", holes, folder, environment={"PUBLIC_KEY": str(root / "key.gpg")})
    shutil.copy(root / "key.gpg", folder / "cuda-archive-keyring.gpg")
    shutil.copy(root / "key.asc", folder / "3bf863cc.pub")
    key.index_flat(folder, origin="NVIDIA", label="NVIDIA CUDA")


def _docker(root: Path, key: SigningKey) -> None:
    for suite in SUITES:
        top = root / DOCKER_PATHS[suite]
        pool = top / "dists" / suite / "pool/stable/amd64"
        shutil.copytree(engine() / suite, pool, copy_function=os.link)
        lists = top / "dists" / suite / "stable/binary-amd64"
        lists.mkdir(parents=True)
        _write_packages(top, pool.relative_to(top), lists)
        key.sign_release(top / "dists" / suite, {
            "Origin": "Docker", "Label": "Docker CE", "Suite": suite, "Codename": suite,
            "Architectures": "amd64", "Components": "stable",
        })  # fmt: skip
        shutil.copy(root / "key.asc", top / "gpg")


def _toolkit(root: Path, key: SigningKey) -> None:
    folder = root / TOOLKIT_PATH / "amd64"
    for upstream in TOOLKITS:
        for source in sorted((PACKAGES / "toolkit").iterdir()):
            build_deb(source, {"UPSTREAM": upstream, "VERSION": f"{upstream}-1"}, folder)
    key.index_flat(folder, origin="NVIDIA CORPORATION", label="NVIDIA CORPORATION")
    shutil.copy(root / "key.asc", root / "libnvidia-container/gpgkey")
    listed = f"deb {URL}/{TOOLKIT_PATH}/$(ARCH) /\n"
    (root / TOOLKIT_PATH / "nvidia-container-toolkit.list").write_text(listed)


def _canonical(root: Path, key: SigningKey) -> None:
    """Canonical's driver packages, as in the section `restricted` of Ubuntu's archive; rehearsal/ubuntu.py adds the
    source to machines."""
    for release, row in ubuntu.RELEASES.items():
        folder = root / ubuntu.driver_path(release)
        for upstream in DRIVERS:
            holes = _driver_holes(upstream) | {"VERSION": f"{upstream}-0ubuntu0.{release}.1"}
            for source in sorted((PACKAGES / "canonical").iterdir()):
                build_deb(source, holes | {"KERNEL": row.newer_kernel}, folder)
        key.index_flat(folder, origin="Ubuntu", label=ubuntu.LABEL)


def _write_packages(top: Path, pool: Path, lists: Path) -> None:
    command = ["apt-ftparchive", "packages", str(pool)]
    text = subprocess.run(command, cwd=top, check=True, capture_output=True).stdout
    (lists / "Packages").write_bytes(text)
    subprocess.run(["gzip", "-9nk", "Packages"], cwd=lists, check=True)


class SigningKey:
    """A throw-away OpenPGP key in `home`, which the caller removes."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._gpg(
            "--passphrase", "", "--quick-gen-key", "enginehouse rehearsal (throw-away)", "rsa3072", "sign", "never"
        )

    def publish(self, root: Path) -> None:
        """Writes the public key to `root`/key.gpg (binary) and key.asc (armoured)."""
        self._gpg("--output", str(root / "key.gpg"), "--export")
        self._gpg("--armor", "--output", str(root / "key.asc"), "--export")

    def index_flat(self, folder: Path, *, origin: str, label: str) -> None:
        """Makes `folder` a flat signed repository of the packages in it."""
        _write_packages(folder, Path("."), folder)
        self.sign_release(folder, {"Origin": origin, "Label": label, "Architectures": "amd64"})

    def sign_release(self, folder: Path, fields: dict[str, str]) -> None:
        """Writes Release, Release.gpg and InRelease over every index below `folder`."""
        fields = {**fields, "Description": "rehearsal stand-in"}
        options = [f"-oAPT::FTPArchive::Release::{name}={value}" for name, value in fields.items()]
        command = ["apt-ftparchive", *options, "release", "."]
        text = subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout
        (folder / "Release").write_bytes(text)
        self._gpg("--clearsign", "--output", str(folder / "InRelease"), str(folder / "Release"))
        self._gpg("--armor", "--detach-sign", "--output", str(folder / "Release.gpg"), str(folder / "Release"))

    def _gpg(self, *arguments: str) -> None:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"]
        subprocess.run([*command, *arguments], check=True, stderr=subprocess.DEVNULL)
