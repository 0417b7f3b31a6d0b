"""Packages that this project installed, distinguished from earlier ones by the record of the host's former state."""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from host.removal.host_state import (
    BEFORE,
    ENVIRONMENT,
    LABELS,
    PREFIX,
    Step,
    contents,
    docker,
    empty,
    no_act,
    recorded,
    run,
)

FAMILIES = {
    "Docker": r"docker-ce(-cli)?|docker\.io|docker-cli|containerd(\.io)?|runc",
    "the container toolkit": r"(lib)?nvidia-container.*",
    "the driver": r"(lib)?nvidia-(?!container).*|libcuda1|cuda-.*|firmware-nvidia.*|linux-headers-.*"
    r"|linux-(modules|objects|signatures)-nvidia-.*",
    **{name: re.escape(name) for name in ("ca-certificates", "curl", "iptables", "nftables", "openssh-client")},
    "HAProxy": "haproxy",
    "certificates": "certbot",
    "monitoring": "prometheus|promtool|prometheus-(alertmanager|blackbox-exporter|node-exporter)",
    "sharing": r"python3-libtorrent|libtorrent-rasterbar.*|libboost-python.*",
    "the gateway": r"python3(\.\d+)?-venv|python3-(pip|setuptools)-whl",
    **{name: re.escape(name) for name in ("rsync", "systemd-timesyncd", "e2fsprogs", "xfsprogs", "python3")},
}


def packages(docker_roots: list[str], is_ours: bool) -> Iterator[Step]:
    """Steps for the packages that the project installed, by family; the project's holds on the remaining packages are
    lifted."""
    if not BEFORE.exists() or (BEFORE / "late").exists():
        if is_ours:
            yield "stays: every package; the packages from before the first deploy are not recorded", no_act
        return
    before = recorded("packages")
    held = sorted(set(run("apt-mark", "showhold").split()) - recorded("holds"))
    if held:
        yield f"holds: {', '.join(held)}", lambda: run("apt-mark", "unhold", *held)
    going, reasons = chosen(before)
    yield from ((f"stays: {why}", no_act) for why in reasons)
    if "monitoring" in going and (masked := masks()):
        yield f"masks: {', '.join(masked)}", lambda: run("rm", "-f", *masked)
    if going:
        families = "; ".join(f"{family}: {' '.join(names)}" for family, names in going.items())
        names = [name for family in going.values() for name in family]
        yield f"packages (loaded kernel modules stay until the next boot): {families}", lambda: purge(names, before)
    if "Docker" in going:
        yield from after_docker(docker_roots)
    if "monitoring" in going:
        yield from account("prometheus", "users", "userdel")
    if "the driver" in going:
        yield from account("nvidia-persistenced", "users", "userdel")


def masks() -> list[str]:
    """Links that keep the units of monitoring packages, which we installed, from starting."""
    units = glob.glob(f"{PREFIX}/etc/systemd/system/prometheus*.service")
    return sorted(path for path in units if os.path.islink(path) and os.readlink(path) == "/dev/null")


def chosen(before: set[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Packages to remove, by family, and the kept ones with the reason."""
    now = installed() - before
    new = {family: sorted(name for name in now if re.fullmatch(names, name)) for family, names in FAMILIES.items()}
    new, reasons = {family: names for family, names in new.items() if names}, list[str]()
    if not new:
        return {}, []
    if "Docker" in new and (others := foreign_containers()):
        reasons.append(f"Docker ({', '.join(new.pop('Docker'))}), because of {', '.join(others)}")
    if who_needs([name for names in new.values() for name in names], before):
        for family, names in list(new.items()):
            if others := who_needs(names, before):
                reasons.append(f"{family} ({', '.join(new.pop(family))}), because of {', '.join(others)}")
    return new, reasons


def after_docker(roots: list[str]) -> Iterator[Step]:
    """Files that Docker's packages leave behind."""
    known = recorded("paths")
    used = [path for path in roots if path.removeprefix(PREFIX) not in known and contents(path)]
    if used:
        yield f"images and containers: {', '.join(used)}", lambda: empty(*used)
    yield from account("docker", "groups", "groupdel")
    specification = Path(f"{PREFIX}/var/run/cdi/nvidia.yaml")
    if specification.exists():
        yield f"file: {specification}", specification.unlink


def account(name: str, kind: str, program: str) -> Iterator[Step]:
    if name not in recorded(kind):
        yield f"{kind}: {name}", lambda: run(program, name)


def roots_of_docker() -> list[str]:
    """The directories in which Docker keeps images."""
    try:
        root = json.loads(Path(f"{PREFIX}/etc/docker/daemon.json").read_text()).get("data-root", "")
    except (OSError, ValueError, RecursionError):
        root = ""
    return [f"{PREFIX}{root or '/var/lib/docker'}", f"{PREFIX}/var/lib/containerd"]


def who_needs(names: list[str], before: set[str]) -> list[str]:
    """Foreign packages that would also be removed: packages from before the project, or installed by hand later."""
    simulated = run("apt-get", "--simulate", "--allow-change-held-packages", "purge", *names)
    gone = set(re.findall(r"(?m)^(?:Remv|Purg) (\S+)", simulated)) - set(names)
    automatic = set(run("apt-mark", "showauto").split())
    ours = {name for name in gone if any(re.fullmatch(names, name) for names in FAMILIES.values())}
    return sorted((gone & before) | (gone - automatic - ours))


def purge(names: list[str], before: set[str]) -> None:
    """Purges the packages, and their dependencies that no other package needs."""
    idle = unneeded()
    shipped = re.findall(r"(?m)/systemd/system/([^/\n]+\.(?:service|socket|path|timer))$", run("dpkg", "-L", *names))
    run("systemctl", "disable", *shipped)  # some packages leave their units' links behind
    apt("purge", "--allow-change-held-packages", *names)
    for _ in range(5):
        spare = sorted((unneeded() - idle) - before)
        if not spare:
            return
        apt("purge", "--allow-change-held-packages", *spare)


def unneeded() -> set[str]:
    """Dependencies that only removed packages needed. A mere suggestion does not keep them."""
    without = [f"-oAPT::AutoRemove::{kind}Important=false" for kind in ("Suggests", "Recommends")]
    return set(re.findall(r"(?m)^Remv (\S+)", run("apt-get", "--simulate", *without, "autoremove")))


def foreign_containers() -> list[str]:
    """Names of containers that are not ours."""
    listed = docker("ps", "--all", "--format", "{{.Names}}\t{{.Labels}}")
    return [f"container {line.split()[0]}" for line in listed if not any(label in line for label in LABELS)]


def installed() -> set[str]:
    """Names of all packages of the host."""
    listed = run("dpkg-query", "-W", "-f=${db:Status-Abbrev} ${Package}\n")
    return {line[3:].strip() for line in listed.splitlines() if fnmatch.fnmatch(line[:2], "[hi]i")}


def apt(*words: str) -> None:
    """apt-get that waits for its lock and asks no questions; its output is shown if it fails."""
    options = ["-y", "-q", "-o", "DPkg::Lock::Timeout=600", "-o", "Dpkg::Options::=--force-confold"]
    ran = subprocess.run(["apt-get", *options, *words], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"apt-get {' '.join(words)}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
