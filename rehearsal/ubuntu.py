"""Machines of Ubuntu: packages of a cloud image, the kernel's name, Canonical's driver, the archive's key.

systemd, sshd, apt, netplan, needrestart, unattended-upgrades, AppArmor's tools and ufw are Ubuntu's own. Stand-ins
replace the kernel's release (the kernel is the outer machine's), the boot loader that chooses it, and the driver of
Canonical.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rehearsal import apt_sources, debian_archive
from rehearsal.artifacts import digest_of, made_once
from rehearsal.places import RehearsalRefused

PACKAGES = (
    *("ubuntu-minimal", "systemd-resolved", "rsyslog", "cron", "logrotate", "apparmor", "ufw", "gnupg", "curl", "wget"),
    *("unattended-upgrades", "needrestart", "update-notifier-common", "nftables", "lsof", "psmisc", "pciutils"),
)
"""Packages in addition to `rootfs.PACKAGES`: Ubuntu's images have Python, and programs that act by themselves."""


@dataclass(frozen=True)
class Release:
    """An Ubuntu release as machines are made of it."""

    kernel: str
    """The kernel of a new machine, as in an image of some months ago."""
    newer_kernel: str
    """The kernel that Canonical's driver 580 depends on (2026-11): installing the driver also brings this kernel, for
    the next boot."""
    lacks: tuple[str, ...] = ()
    """Packages of `PACKAGES` that this release contains as parts of others."""


RELEASES = {
    "22.04": Release("5.15.0-171-generic", "5.15.0-204-generic", lacks=("systemd-resolved",)),
    "24.04": Release("6.8.0-117-generic", "6.8.0-151-generic"),
    "26.04": Release("7.0.0-14-generic", "7.0.0-44-generic"),
}
LABEL = "rehearsal stand-in"
ARCHIVE_KEY = "F6ECB3762474EDA9D21B7022871920D1991BC93C"
"""Ubuntu Archive Automatic Signing Key (2018), read from the keyring of an Ubuntu 24.04.3 (2026-11-27)."""
_URL = "http://apt.rehearsal.internal:8480"

BOOT = f"""#!/bin/bash
# {LABEL} for the boot loader: the newest installed kernel is the one that runs, by its name.
newest=$(cd /boot && ls -v vmlinuz-* | tail -n 1)
mkdir -p /run/rehearsal
echo "${{newest#vmlinuz-}}" >/run/rehearsal/kernel
mount --bind /run/rehearsal/kernel /proc/sys/kernel/osrelease
"""
UNAME = f"""#!/bin/bash
# {LABEL}: the kernel is the outer machine's, and its release reads as one of Ubuntu's.
# The coreutils of uutils, from 26.04 on, are one program that asks for its own name.
real() {{ (exec -a uname /usr/bin/uname.kernel "$@"); }}
kernel=$(real -r)
named=$(cat /run/rehearsal/kernel 2>/dev/null || ls -v /boot | sed -n 's/^vmlinuz-//p' | tail -n 1)
shown=$(real "$@") || exit
echo "${{shown//"$kernel"/$named}}"
"""
UDEV = f"""# {LABEL}: Canonical's rule of udev, which a shared kernel leaves out: a loaded driver wants the daemon.
[Unit]
Wants=nvidia-persistenced.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/true
"""
FILES = {  # for every release
    "usr/lib/rehearsal/uname": UNAME,
    "usr/lib/rehearsal/boot-kernel": BOOT,
    "etc/systemd/system/rehearsal-hardware.service.d/kernel.conf": (
        "[Service]\nExecStartPre=/usr/lib/rehearsal/boot-kernel\n"
    ),
    # PID 1 asks the kernel itself, so its `%v` is the outer machine's.
    "etc/systemd/system/nvidia-cdi-refresh.service.d/kernel.conf": (
        "[Service]\nExecCondition=\n"
        "ExecCondition=/bin/sh -c 'grep -qE /nvidia.ko /lib/modules/$$(uname -r)/modules.dep'\n"
    ),
    "etc/systemd/system/rehearsal-udev.service": UDEV,
    "etc/systemd/system/rehearsal-udev.path": (
        "[Path]\nPathExists=/sys/bus/pci/drivers/nvidia\n[Install]\nWantedBy=multi-user.target\n"
    ),
    "etc/apt/preferences.d/restricted": (
        f"Explanation: {LABEL}\nPackage: *\nPin: release l={LABEL}, o=Ubuntu\nPin-Priority: 990\n"
    ),
}
FINISH = """
systemctl enable rehearsal-udev.path
for path in $(dpkg-query --search '*bin/uname' | sed 's/.*: //'); do
    dpkg-divert --local --rename --divert "$path.kernel" --add "$path"
    ln -sfn /usr/lib/rehearsal/uname "$path"
done
"""


def packages(release: str) -> list[str]:
    """Packages of a machine of that release in addition to `rootfs.PACKAGES`."""
    return [name for name in PACKAGES if name not in RELEASES[release].lacks]


def driver_path(release: str) -> str:
    """Path of Canonical's driver for that release in the served tree of packages."""
    return f"canonical/{apt_sources.CODENAMES[release]}"


def files(release: str) -> dict[str, str]:
    """Files laid over a machine of that release: path in the machine, text."""
    driver = (
        f"# {LABEL}: Canonical's driver for the card that is stood in for.\n"
        f"Types: deb\nURIs: {_URL}/{driver_path(release)}\nSuites: ./\nTrusted: yes\n"
    )
    kernel = f"boot/vmlinuz-{RELEASES[release].kernel}"
    return FILES | {kernel: f"{LABEL}\n", "etc/apt/sources.list.d/restricted.sources": driver}


def written_files(release: str, folder: Path) -> dict[str, Path]:
    """`files` as files in `folder`: path in the machine, file."""
    written = {}
    for number, (path, text) in enumerate(files(release).items()):
        written[path] = folder / f"file-{number}{Path(path).suffix}"
        written[path].write_text(text)
    return written


def with_keyring(sources: str) -> str:
    """The sources as apt on the outer machine reads them, which may not have Ubuntu's keyring at its place."""
    return sources.replace(apt_sources.UBUNTU_KEYRING, str(keyring()))


def keyring() -> Path:
    """Keyring of Ubuntu's archive: the outer machine's, else the known key out of the archive's own package."""
    installed = Path(apt_sources.UBUNTU_KEYRING)
    if installed.is_file():
        return installed
    return made_once("ubuntu-keyring", digest_of(ARCHIVE_KEY), _make_keyring) / "archive.gpg"


def _make_keyring(into: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ubuntu-keyring-") as scratch:
        work = Path(scratch)
        # The package is not authenticated yet, but the key in it is verified by its fingerprint.
        unsigned = [_unsigned(source) for source in apt_sources.ubuntu_sources("24.04")]
        (work / "debs").mkdir()
        (deb,) = debian_archive.download("24.04", ["ubuntu-keyring"], work / "debs", work / "apt", unsigned)
        subprocess.run(["dpkg-deb", "-x", str(deb), str(work / "tree")], check=True)
        home = work / "gnupg"
        home.mkdir(mode=0o700)
        gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--no-tty"]
        packed = work / "tree" / apt_sources.UBUNTU_KEYRING.lstrip("/")
        subprocess.run([*gpg, "--import", str(packed)], check=True, capture_output=True)
        key = subprocess.run([*gpg, "--export", ARCHIVE_KEY], check=True, capture_output=True).stdout
        if not key:
            raise RehearsalRefused(
                f"the package {deb.name} does not hold the key of Ubuntu's archive\n  wanted  {ARCHIVE_KEY}\n"
                "  try     ENGINEHOUSE_UBUNTU_MIRROR=<an archive you trust>, then run again\n"
                "  state   no machine was made"
            )
        (into / "archive.gpg").write_bytes(key)


def _unsigned(source: apt_sources.Source) -> apt_sources.Source:
    return apt_sources.Source(source.uris, source.suites[:1], ("main",), is_trusted=True)
