"""Requirements of a rehearsal on the outer machine, and the exact list of missing ones.

Each requirement is tried rather than guessed (by mounting a real overlay, making a real bridge), because a container
can have the programs and lack the permissions. It installs packages only on request.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rehearsal import cgroups
from rehearsal.network import resolvers
from rehearsal.places import Places, RehearsalRefused

# Program or file whose presence is checked -> Debian package that contains it.
ROOT_PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}
"""Programs for making root file systems; a machine over a snapshot needs none."""
PROGRAMS = {
    **ROOT_PROGRAMS,
    "systemd-nspawn": "systemd-container",
    "iptables": "iptables",
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "rsync": "rsync",
}
SERVICE_PROGRAMS = {
    "docker-registry": "docker-registry",
    "apt-ftparchive": "apt-utils",
    "dpkg-deb": "dpkg",
    "gcc": "gcc",
    "gpg": "gnupg",
    "openssl": "openssl",
    "pigz": "pigz",
    "curl": "curl",
    "/usr/include/stdio.h": "libc6-dev",
}
VIRTUAL_PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "mke2fs": "e2fsprogs"}
"""Programs besides PROGRAMS for machines with their own kernel."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
# On the outer machine the tests start Triton, whose Python stub embeds the interpreter (rehearsal facts), HAProxy, and
# hosts that share a model with the distribution's Python. promtool tries the alert rules; until Debian 13 and Ubuntu
# 25.04 it came with Prometheus itself.
WITH_PROMETHEUS = {("debian", "12"), ("ubuntu", "22.04"), ("ubuntu", "24.04")}
TEST_FILES = {
    f"/usr/lib/x86_64-linux-gnu/libpython{PYTHON}.so.1.0": f"libpython{PYTHON}",
    "/usr/sbin/haproxy": "haproxy",
    "promtool": "promtool",
    "/var/lib/dpkg/info/python3-libtorrent.list": "python3-libtorrent",
}
PICTURE_PROGRAMS = {"chromium": "chromium"}
"""Browsers, which draw Prometheus' pages in `make test-monitoring` and try the gateway's pages in `make test`."""
BROWSERS = ("chromium", "google-chrome")
"""Alternative browsers: Ubuntu has the first only as a snap; hosted runners have the second."""
UNITS = Path("/etc/systemd/system")
DISK_MIB = 6_000


@dataclass(frozen=True)
class Missing:
    """A requirement that the outer machine lacks; `package` is the package that contains it, if there is any."""

    what: str
    package: str = ""


def packages() -> list[str]:
    """Returns the Debian packages a rehearsal uses on the outer machine."""
    return sorted({*PROGRAMS.values(), *SERVICE_PROGRAMS.values()})


def missing(places: Places, kind: str = "nspawn", has_root: bool = False) -> list[Missing]:
    """Returns every missing requirement; empty if machines can run here.

    With `has_root` the root file system exists already.
    """
    if platform.system() != "Linux":
        return [Missing(f"Linux: machines share the kernel of the outer machine, and this is {platform.system()}")]
    wanted = PROGRAMS | (VIRTUAL_PROGRAMS if kind == "qemu" else {})
    wanted = {name: wanted[name] for name in wanted if not (has_root and name in ROOT_PROGRAMS)}
    lacking = [Missing(f"the program {Path(name).name}", package) for name, package in wanted.items() if not _has(name)]
    if os.geteuid() != 0:
        return [*lacking, Missing("root: namespaces, overlay mounts and bridges need it")]
    return lacking + [Missing(what) for what, works in _trials(places) if not works()]


def require(places: Places, kind: str = "nspawn", has_root: bool = False) -> None:
    """Refuses with the whole list if a requirement is missing for machines of that kind."""
    if lacking := missing(places, kind, has_root):
        raise RehearsalRefused(explain(lacking))


def missing_packages(for_tests: bool = False, for_faults: bool = False, for_pictures: bool = False) -> list[Missing]:
    """Returns missing programs and files: for machines, services and, if wanted, tests, faults, pictures."""
    wanted = PROGRAMS | SERVICE_PROGRAMS | (TEST_FILES if for_tests else {}) | (VIRTUAL_PROGRAMS if for_faults else {})
    wanted |= PICTURE_PROGRAMS if for_pictures and not browser() else {}
    return [
        Missing(f"the program {Path(name).name}", promtool_package() if package == "promtool" else package)
        for name, package in wanted.items()
        if not _has(name)
    ]


def browser() -> str | None:
    """Returns the program of an installed browser; None without one."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def promtool_package() -> str:
    """Returns the package that contains promtool here."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return "promtool"
    return "prometheus" if (system.get("ID"), system.get("VERSION_ID")) in WITH_PROMETHEUS else "promtool"


def explain(lacking: list[Missing]) -> str:
    """Returns the list as a message: the missing requirements, and the one command that installs the packages."""
    lines = [
        "this machine cannot host rehearsal machines yet",
        *(f"  missing {requirement.what}" for requirement in lacking),
    ]
    wanted = sorted({requirement.package for requirement in lacking if requirement.package})
    if wanted:
        lines.append(f"  try     apt-get install {' '.join(wanted)}   (or `python -m rehearsal up --install`)")
    if any(not requirement.package for requirement in lacking):
        lines.append("  means   no package brings the rest: use a Linux VM where you are root")
    return "\n".join([*lines, "  state   nothing was started"])


def install(lacking: list[Missing]) -> None:
    """Installs the missing packages, if the outer machine runs Debian or Ubuntu."""
    wanted = sorted({requirement.package for requirement in lacking if requirement.package})
    if wanted and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update"], check=True, env=environment)
        command = ["apt-get", "install", "--yes", "--no-install-recommends", *wanted]
        with _kept_off("prometheus.service") if "prometheus" in wanted else contextlib.nullcontext():
            subprocess.run(command, check=True, env=environment)


@contextlib.contextmanager
def _kept_off(unit: str) -> Iterator[None]:
    """Keeps a unit of a package installed meanwhile from starting, since only the package's program is wanted."""
    mask = UNITS / unit
    is_ours = not os.path.lexists(mask)
    if is_ours:
        UNITS.mkdir(parents=True, exist_ok=True)
        mask.symlink_to("/dev/null")
    try:
        yield
    finally:
        if is_ours:
            mask.unlink()
            for folder in UNITS.glob("*.wants"):
                # `glob` for the link's own name would omit a dangling link.
                (folder / unit).unlink(missing_ok=True)


def _has(name: str) -> bool:
    return Path(name).exists() if name.startswith("/") else shutil.which(name) is not None


def _trials(places: Places) -> Iterator[tuple[str, Callable[[], bool]]]:
    near = next(path for path in (places.root, *places.root.parents) if path.is_dir())
    yield (
        f"overlay mounts above {near}: its file system cannot carry them, or mount is forbidden",
        lambda: _overlay(near),
    )
    yield "network bridges: the kernel or this container forbids them", _bridge
    yield "iptables' nat table: machines would have no way to the package registries", _nat
    yield "a cgroup version 2 hierarchy, alone or beside version 1", lambda: bool(cgroups.roots())
    yield "a name server that is not on loopback: machines could resolve nothing", lambda: bool(resolvers())
    yield "a machine id: systemd-nspawn wants one, `systemd-machine-id-setup` writes it", _machine_id
    yield f"{DISK_MIB:,} MiB of free disk at {near}", lambda: shutil.disk_usage(near).free >> 20 >= DISK_MIB


def _overlay(near: Path) -> bool:
    with tempfile.TemporaryDirectory(dir=near, prefix=".overlay-trial-") as scratch:
        for part in ("lower", "upper", "work", "root"):
            (Path(scratch) / part).mkdir()
        options = f"lowerdir={scratch}/lower,upperdir={scratch}/upper,workdir={scratch}/work"
        trial = f"mount -t overlay overlay -o {options} {scratch}/root && touch {scratch}/root/x"
        return _works("unshare", "--mount", "--propagation", "private", "sh", "-c", trial)


def _bridge() -> bool:
    return _works("unshare", "--net", "ip", "link", "add", "trial0", "type", "bridge")


def _nat() -> bool:
    return _works("iptables", "-w", "-t", "nat", "-S")


def _machine_id() -> bool:
    return Path("/etc/machine-id").is_file() and len(Path("/etc/machine-id").read_text().strip()) == 32


def _works(*words: str) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
