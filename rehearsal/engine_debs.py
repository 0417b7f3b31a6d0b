"""docker-ce, docker-ce-cli and containerd.io for each release of a machine, repackaged from Debian's engine.

Docker's repository cannot be reached from a rehearsal, and Debian 12's engine is too old for CDI. Debian 13's dockerd,
client and containerd run on Debian 12 as they are; its runc does not (glibc 2.38), so each Debian gets its own,
and Ubuntu that of Debian 13. The engine is real; only the packaging is ours.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from rehearsal.apt_sources import CODENAMES
from rehearsal.debian_archive import download
from rehearsal.debs import PACKAGES, build_deb

SUITES = {codename: release for release, codename in CODENAMES.items()}
ENGINE_FROM = "13"
RUNC_FROM = {"bookworm": "12", "jammy": "12"}
"""Suites whose C library is too old for the runc of `ENGINE_FROM`, and the Debian release whose runc they get."""
ENGINE_PACKAGES = ["docker.io", "docker-cli", "containerd", "tini"]


def build_engine(into: Path, work: Path) -> None:
    """Builds the three packages of each suite in `into`/<suite>/; `work` is scratch space."""
    engine = work / "engine"
    versions = _unpacked(ENGINE_FROM, ENGINE_PACKAGES, engine)
    for suite, number in SUITES.items():
        runc = work / f"runc-{suite}"
        _unpacked(RUNC_FROM.get(suite, ENGINE_FROM), ["runc"], runc)
        payloads = _payloads(engine, runc, work / f"payload-{suite}")
        for package, payload in payloads.items():
            upstream = versions["containerd" if package == "containerd.io" else "docker.io"]
            epoch = "" if package == "containerd.io" else "5:"
            version = f"{epoch}{upstream}-1~rehearsal.{number}~{suite}"
            holes = {"VERSION": version, "UPSTREAM": upstream}
            build_deb(PACKAGES / "docker" / package, holes, into / suite, payload=payload)


def _unpacked(release: str, packages: list[str], tree: Path) -> dict[str, str]:
    """Unpack packages over each other into `tree`; returns their upstream versions."""
    store = tree.with_name(f"{tree.name}-debs")
    store.mkdir(parents=True)
    versions = {}
    for deb in download(release, packages, store, tree.with_name(f"apt-{release}")):
        subprocess.run(["dpkg-deb", "-x", str(deb), str(tree)], check=True)
        name, version, *_ = deb.name.split("_")
        versions[name] = version.split("%3a")[-1].split("+")[0].split("~")[0].split("-")[0]
    return versions


def _payloads(engine: Path, runc: Path, into: Path) -> dict[str, Path]:
    """Returns the files of each package: the files under the places Docker's own packages use."""
    units = "usr/lib/systemd/system"
    contents = {
        "docker-ce": [
            (engine / "usr/sbin/dockerd", "usr/bin/dockerd"),
            (engine / "usr/sbin/docker-proxy", "usr/bin/docker-proxy"),
            (engine / "usr/bin/tini-static", "usr/bin/docker-init"),
            (engine / units / "docker.service", f"{units}/docker.service"),
            (engine / units / "docker.socket", f"{units}/docker.socket"),
            (engine / "usr/share/doc/docker.io/copyright", "usr/share/doc/docker-ce/copyright"),
        ],
        "docker-ce-cli": [
            (engine / "usr/bin/docker", "usr/bin/docker"),
            (engine / "usr/share/doc/docker-cli/copyright", "usr/share/doc/docker-ce-cli/copyright"),
        ],
        "containerd.io": [
            (engine / "usr/bin/containerd", "usr/bin/containerd"),
            (engine / "usr/bin/containerd-shim-runc-v2", "usr/bin/containerd-shim-runc-v2"),
            (engine / "usr/bin/ctr", "usr/bin/ctr"),
            (runc / "usr/sbin/runc", "usr/bin/runc"),
            (engine / units / "containerd.service", f"{units}/containerd.service"),
            (engine / "usr/share/doc/containerd/copyright", "usr/share/doc/containerd.io/copyright"),
        ],
    }
    for package, files in contents.items():
        for source, target in files:
            _copy(source, into / package / target)
    unit = into / "docker-ce" / units / "docker.service"
    unit.write_text(unit.read_text().replace("/usr/sbin/dockerd", "/usr/bin/dockerd").replace(" $DOCKER_OPTS", ""))
    return {package: into / package for package in contents}


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
