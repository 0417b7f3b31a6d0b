"""Root file systems of bare Debian and Ubuntu VMs: what a minimal cloud image holds, and nothing a role should install.

A root file system is made once per recipe, kept in the cache under the recipe's digest and then read-only: machines lay
their own changes over it. It has no identity (host keys, machine id, name, address, login key).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rehearsal import apt_sources, ubuntu
from rehearsal.places import RehearsalRefused, cache, cache_locked

LOGIN_USER = "operator"
# Left out on purpose, because roles must bring them: docker, rsync, curl, python3.
PACKAGES = (
    *("systemd", "systemd-sysv", "systemd-timesyncd", "dbus", "libpam-systemd", "openssh-server", "sudo"),
    *("ca-certificates", "iproute2", "iptables", "procps", "kmod", "netbase", "tzdata", "apt-utils", "less"),
)
KMOD_TOOLS = ("modprobe", "rmmod", "insmod", "modinfo", "lsmod", "depmod")
HARDWARE = Path(__file__).resolve().parent / "hardware"
OUTER_CERTIFICATES = Path("/usr/local/share/ca-certificates")

SSHD = "PermitRootLogin no\nPasswordAuthentication no\nUseDNS no\n"
# Documentation and translations are half of the files and no role looks at them.
UNREAD = ("doc", "man", "locale")
DPKG = "".join(f"path-exclude=/usr/share/{name}/*\n" for name in UNREAD) + "force-unsafe-io\n"

FINISH = f"""set -eu
# Debian already has a group of this name.
useradd --create-home --shell /bin/bash --gid {LOGIN_USER} {LOGIN_USER}
install -d -o {LOGIN_USER} -g {LOGIN_USER} -m 0700 /home/{LOGIN_USER}/.ssh
echo '{LOGIN_USER} ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/90-{LOGIN_USER}
chmod 0440 /etc/sudoers.d/90-{LOGIN_USER}
passwd --lock root
rm -f /etc/ssh/ssh_host_*
: > /etc/machine-id
install -d -m 0755 /var/lib/dbus
ln -sfn /etc/machine-id /var/lib/dbus/machine-id
update-ca-certificates
# Kernel module tools are stood in for: the kernel is the outer machine's and must not be touched from here.
for tool in {" ".join(KMOD_TOOLS)}; do
    # lsmod is shipped at two paths.
    for path in $(dpkg --listfiles kmod | grep "bin/$tool$"); do
        dpkg-divert --local --rename --divert "$path.kmod" --add "$path"
        ln -sfn /usr/lib/rehearsal/kernel-modules "$path"
    done
done
systemctl enable systemd-networkd ssh rehearsal-hardware
systemctl set-default multi-user.target
# They would show the outer kernel, which a VM has nothing to do with.
systemctl mask sys-kernel-debug.mount sys-kernel-tracing.mount
"""


FINISH_UBUNTU = FINISH.replace("systemd-networkd ssh rehearsal", "systemd-networkd rehearsal") + ubuntu.FINISH
"""sshd is started by its socket there, which the package enables."""


def root_file_system(release: str) -> Path:
    """Directory of the finished root file system of that release ("12", "24.04"), made now if the cache has none."""
    name = apt_sources.system(release)
    place = cache() / f"{name}-{recipe(release)}"
    with cache_locked(name):
        if not place.is_dir():
            _make(release, place)
    return place


def recipe(release: str) -> str:
    """Digest of everything that decides what the root file system holds."""
    digest = hashlib.sha256()
    own: tuple[str, ...] = (FINISH,)
    if "." in release:
        own = (" ".join(ubuntu.packages(release)), ubuntu.FINISH, str(ubuntu.files(release)))
    for text in (_sources(release), apt_sources.handed_on_settings(), " ".join(PACKAGES), SSHD, DPKG, *own):
        digest.update(text.encode() + b"\0")
    for path in [*_hardware_files(), *_certificates()]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _make(release: str, place: Path) -> None:
    for left_over in cache().glob(f"making-{release}-*"):
        remove_tree(left_over)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=f"making-{release}-") as scratch:
        root, log = Path(scratch) / "root", cache() / f"{apt_sources.system(release)}.log"
        if "." in release:
            files = ubuntu.written_files(release, Path(scratch))
            make_tree(release, root, log, ubuntu.packages(release), FINISH_UBUNTU, files)
        else:
            make_tree(release, root, log)
        root.rename(place)


def make_tree(
    release: str,
    root: Path,
    log: Path,
    packages: Sequence[str] = (),
    finish: str = FINISH,
    files: Mapping[str, Path] | None = None,
) -> None:
    """Fills `root` with a bare system; with further packages, files laid over it, and another last script if given.

    `log`: the file for output. Two trees of one release may be made concurrently, as for machines of both kinds.
    """
    # `_make` deletes leftovers by their names; this name is different, because another tree may be in progress.
    with tempfile.TemporaryDirectory(dir=cache(), prefix=f"apt-for-{release}-") as scratch:
        sources, settings = Path(scratch) / "debian.sources", Path(scratch) / "99-rehearsal"
        sources.write_text(ubuntu.with_keyring(_sources(release)) if "." in release else _sources(release))
        settings.write_text(apt_sources.handed_on_settings())
        excludes = Path(scratch) / "dpkg.cfg"
        excludes.write_text(DPKG)
        arguments = [
            *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--quiet"),
            *(f"--include={','.join((*PACKAGES, *packages))}", f"--aptopt={settings}", f"--dpkgopt={excludes}"),
            *(apt_sources.CODENAMES[release], str(root), str(sources)),
        ]
        with log.open("w") as output:
            finished = subprocess.run(arguments, stdout=output, stderr=subprocess.STDOUT, check=False)
        if finished.returncode != 0:
            raise RehearsalRefused(_explain(release, log))
    _finish(root, _sources(release), log, finish, files or {})


def _finish(root: Path, sources: str, log: Path, finish: str, files: Mapping[str, Path]) -> None:
    """Turns a bootstrapped tree into a VM image: login user, sshd, network, stand-in hardware."""
    for old in [root / "etc/apt/sources.list", *(root / "etc/apt/sources.list.d").iterdir()]:
        old.unlink(missing_ok=True)
    name = "ubuntu" if apt_sources.UBUNTU_KEYRING in sources else "debian"
    _write(root / f"etc/apt/sources.list.d/{name}.sources", sources)
    _write(root / "etc/ssh/sshd_config.d/10-cloud.conf", SSHD)
    _write(root / "etc/default/locale", "LANG=C.UTF-8\n")
    for certificate in _certificates():
        _write(root / "usr/local/share/ca-certificates" / certificate.name, certificate.read_text())
    for path in _hardware_files():
        target = "etc/systemd/system" if path.suffix == ".service" else "usr/lib/rehearsal"
        _write(root / target / path.name, path.read_text(), 0o644 if path.suffix == ".service" else 0o755)
    for inside, path in files.items():
        _write(root / inside, path.read_text(), 0o755 if path.suffix == "" else 0o644)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    script = ["chroot", str(root), "sh", "-c", finish]
    with log.open("a") as output:
        subprocess.run(script, check=True, env=environment, stdout=output, stderr=subprocess.STDOUT)


def _sources(release: str) -> str:
    return "\n".join(source.to_deb822() for source in apt_sources.sources(release))


def _hardware_files() -> list[Path]:
    return sorted(path for path in HARDWARE.iterdir() if path.is_file() and path.suffix != ".py")


def _certificates() -> list[Path]:
    """Returns certificate authorities the outer machine trusts beyond Debian's, for example a proxy's."""
    known = sorted(OUTER_CERTIFICATES.rglob("*.crt")) if OUTER_CERTIFICATES.is_dir() else []
    return [path for path in known if os.access(path, os.R_OK)]


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _explain(release: str, log: Path) -> str:
    tail = "\n".join(f"          {line}" for line in log.read_text().splitlines()[-6:])
    return (
        f"mmdebstrap made no root file system of {apt_sources.system(release)}\n  said\n{tail}\n"
        f"  log     {log}\n  try     `apt-get update` here: the machine uses the same mirror\n"
        "  state   no machine was made"
    )


def remove_tree(path: Path) -> None:
    """Deletes the directory, if it exists."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    assert not any(mount.startswith(f"{path}/") for mount in mounts), f"something is mounted below {path}"
    if path.exists():
        shutil.rmtree(path)
