"""Disks of machines with their own kernel: the bare Debian of rootfs.py with kernel and initramfs.

A base disk is made once per recipe and then read-only; a machine's own disk is a layer over it (qcow2). A small second
disk has the machine's identity, which the machine copies over its files at every boot.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rehearsal import rootfs
from rehearsal.places import cache, cache_locked

FILES = Path(__file__).resolve().parent / "kernel"
# A provider's image brings its kernel; dkms and its compiler are included, so that a driver's installation builds its
# module without fetching a compiler under emulation.
KERNEL_PACKAGES = ("linux-image-cloud-amd64", "linux-headers-cloud-amd64", "initramfs-tools", "zstd", "dkms")
DISK_GIB = 64
LOGIN_ID = 1000
"""User and group of rootfs.LOGIN_USER in these trees; the first ordinary user gets the first ordinary number."""

FINISH = "".join(
    (
        rootfs.FINISH.partition("# Kernel module tools are stood in for")[0],
        "systemctl enable systemd-networkd ssh rehearsal-hardware rehearsal-identity\n",
        "systemctl set-default multi-user.target\n",
        f"groupmod --gid {LOGIN_ID} {rootfs.LOGIN_USER} && usermod --uid {LOGIN_ID} {rootfs.LOGIN_USER}\n",
        f"chown -R {rootfs.LOGIN_USER}:{rootfs.LOGIN_USER} /home/{rootfs.LOGIN_USER}\n",
        "echo 'LABEL=root / ext4 defaults 0 1' > /etc/fstab\n",
        "update-initramfs -u -k all\n",
    )
)


@dataclass(frozen=True)
class BaseDisk:
    """The disk that every machine of one Debian release boots from."""

    place: Path

    @property
    def disk(self) -> Path:
        """Returns the raw ext4 file system, labelled root."""
        return self.place / "disk.raw"

    @property
    def kernel(self) -> Path:
        """Returns the kernel image, which QEMU reads from outside the disk."""
        return self.place / "vmlinuz"

    @property
    def initramfs(self) -> Path:
        return self.place / "initrd.img"


def base_disk(debian: str, more: tuple[str, ...] = ()) -> BaseDisk:
    """Returns the base disk of Debian `debian` ("12" or "13"), made now if the cache has none.

    `more`: preinstalled packages of the distribution, which apt would install in minutes under emulation.
    """
    place = cache() / f"disk-{debian}-{_recipe(debian, more)}"
    with cache_locked(f"disk-{debian}"):
        if not place.is_dir():
            _make(debian, place, more)
    return BaseDisk(place)


def own_disk(base: Path, disk: Path) -> None:
    """Writes a new layer over `base`, a base disk or a snapshot's, to `disk`."""
    form = "qcow2" if base.suffix == ".qcow2" else "raw"
    _command("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", form, str(disk))


def identity_disk(files: Path, disk: Path) -> None:
    """Writes the tree `files` with its owners and modes to `disk`, labelled identity."""
    disk.unlink(missing_ok=True)
    _command("mke2fs", "-q", "-t", "ext4", "-L", "identity", "-d", str(files), str(disk), "8M")


def _make(debian: str, place: Path, more: tuple[str, ...]) -> None:
    for left_over in cache().glob(f"making-disk-{debian}-*"):
        rootfs.remove_tree(left_over)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=f"making-disk-{debian}-") as scratch:
        tree, making = Path(scratch) / "tree", Path(scratch) / "made"
        making.mkdir()
        log, packages = cache() / f"disk-{debian}.log", (*KERNEL_PACKAGES, *more)
        rootfs.make_tree(debian, tree, log, packages, FINISH, _files())
        shutil.copy(next((tree / "boot").glob("vmlinuz-*")), making / "vmlinuz")
        shutil.copy(next((tree / "boot").glob("initrd.img-*")), making / "initrd.img")
        size = f"{DISK_GIB}G"  # sparse: only what is written takes room here
        _command("mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", str(tree), str(making / "disk.raw"), size)
        rootfs.remove_tree(tree)
        making.rename(place)


def _files() -> dict[str, Path]:
    """Returns the files laid over those of rootfs.py: path in the tree -> file here."""
    return {
        "usr/lib/rehearsal/show-hardware": FILES / "show-hardware",
        "etc/systemd/system/rehearsal-identity.service": FILES / "rehearsal-identity.service",
        "etc/systemd/network/10-host0.link": FILES / "10-host0.link",
    }


def _recipe(debian: str, more: tuple[str, ...]) -> str:
    digest = hashlib.sha256(rootfs.recipe(debian).encode())
    digest.update(" ".join((*KERNEL_PACKAGES, *more)).encode() + FINISH.encode() + str(DISK_GIB).encode())
    for path in sorted(_files().values()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _command(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
