"""Drivers of every publisher, alone and mixed, on hosts of clouds and elsewhere, recognised by apt's sources."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.refusals.errors import Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts, script
from roles.preflight.defaults import Defaults
from roles.preflight.docker import flags_twice, keys_of, other_file
from roles.preflight.judge import driver, judge, notes
from roles.preflight.origins import driver_origins, fact_commands, image_of, publisher
from tests.roles.preflight.test_preflight import GOOD, NOW
from tests.roles.slices import a_slice

UBUNTU, DEBIAN = "ubuntu-24.04", "debian-12"
OF_CANONICAL = (
    "libnvidia-compute-580-server 580.95.05-0ubuntu0.24.04.2 Ubuntu\n"
    "linux-modules-nvidia-580-server-open-generic 6.8.0-85.85 Ubuntu"
)
OF_NVIDIA = "libnvidia-compute-580 580.95.05-1ubuntu1 NVIDIA\nnvidia-dkms-580-open 580.95.05-1ubuntu1 NVIDIA"
OF_DEBIAN = "libcuda1 535.261.03-1~deb12u1 Debian\nnvidia-driver-libs 535.261.03-1~deb12u1 Debian"
OF_LAMBDA = "lambda-stack-cuda 0.1.21 Lambda\nlibnvidia-compute-580-server 580.95.05-0lambda0.24.04.1 Lambda"
OF_GRID = "nvidia-linux-grid-580 580.95.05 local"
NEW, OLD = "580.95.05", "535.261.03"


def facts(**values: str) -> HostFacts:
    """Answers of a host; names with dashes."""
    return HostFacts(values={name.replace("_", "-"): value for name, value in values.items() if value})


def findings(mine: Slice, packages: str, loaded: str = "", **values: str) -> list[Refusal]:
    """Refusals of a host with these packages and this loaded driver."""
    return list(driver_origins(facts(driver_packages=packages, loaded=loaded, **values), mine))


@pytest.mark.parametrize(
    ("version", "word"),
    [
        ("580.95.05-0ubuntu0.24.04.2", "canonical"),
        ("535.183.01-0ubuntu0.22.04.1", "canonical"),
        ("580.95.05-1ubuntu1", "nvidia"),
        ("580.95.05-1", "nvidia"),
        ("535.261.03-1~deb12u1", "debian"),
        ("535.216.03-1~bpo12+1", "debian"),
        ("580.95.05", ""),
    ],
)
def test_a_version_that_its_source_has_no_more_is_known_by_its_form(version: str, word: str) -> None:
    """apt names no source for an installed version once a newer version has replaced it in the source."""
    assert publisher("libnvidia-compute-580", version, "local") == word


def test_a_mirror_is_recognised_by_its_signing_key() -> None:
    assert publisher("libcuda1", "580.95.05-1", "NVIDIA") == "nvidia"
    assert publisher("libcuda1", "580.95.05-1", "LP-PPA-graphics-drivers") == "LP-PPA-graphics-drivers"


@pytest.mark.parametrize(
    ("os", "packages", "loaded", "kinds"),
    [
        (UBUNTU, "", "", []),
        (UBUNTU, OF_CANONICAL, "", []),
        (UBUNTU, OF_CANONICAL, NEW, []),
        (DEBIAN, OF_NVIDIA, "", []),
        (UBUNTU, OF_NVIDIA, NEW, []),
        (UBUNTU, OF_NVIDIA, "", ["foreign-driver"]),
        (DEBIAN, OF_DEBIAN, OLD, ["foreign-driver"]),
        (UBUNTU, OF_LAMBDA, NEW, []),
        (UBUNTU, OF_LAMBDA, OLD, ["foreign-driver"]),
        (UBUNTU, f"{OF_CANONICAL}\n{OF_NVIDIA}", NEW, ["mixed-driver"]),
        (UBUNTU, f"{OF_CANONICAL}\n{OF_NVIDIA}", "", ["mixed-driver"]),
        (UBUNTU, OF_GRID, NEW, ["vgpu-driver"]),
        (UBUNTU, f"{OF_CANONICAL}\nnvidia-driver-pinning-580 580-1 NVIDIA", NEW, []),
    ],
)
def test_a_driver_is_judged_by_its_publisher(os: str, packages: str, loaded: str, kinds: list[str]) -> None:
    assert [finding.kind for finding in findings(a_slice(os), packages, loaded)] == kinds


def test_an_unmanaged_driver_is_not_judged() -> None:
    theirs = a_slice(UBUNTU, driver={"manage": False})
    assert findings(theirs, f"{OF_CANONICAL}\n{OF_NVIDIA}\n{OF_GRID}", NEW) == []


def test_a_mixed_driver_that_works_is_offered_to_stay() -> None:
    (finding,) = findings(a_slice(UBUNTU), f"{OF_CANONICAL}\n{OF_NVIDIA}", NEW, vendor="Amazon EC2")
    assert finding.attempt.startswith('"driver": Driver(manage=False) keeps 580.95.05 of this image of AWS; or apt-get')
    assert "of canonical" in finding.facts["found"] and "of nvidia" in finding.facts["found"]


def test_the_source_of_an_installed_driver_is_offered_before_a_purge() -> None:
    (finding,) = findings(a_slice(UBUNTU), OF_NVIDIA)
    assert finding.attempt.startswith('"driver": Driver(source="nvidia") takes nvidia\'s; or apt-get purge')


@pytest.mark.parametrize(("vendor", "cloud"), [("Amazon EC2", "AWS"), ("Google", "Google Cloud"), ("QEMU", "")])
def test_a_cloud_s_image_keeps_its_runfile_by_one_line(vendor: str, cloud: str) -> None:
    seen = facts(runfile="/usr/bin/nvidia-uninstall", loaded=NEW, vendor=vendor)
    (finding,) = driver(seen, a_slice(UBUNTU))
    named = f" of this image of {cloud}" if cloud else ""
    assert finding.attempt == f'"driver": Driver(manage=False) keeps 580.95.05{named}; or nvidia-uninstall and reboot'
    assert image_of(seen) == cloud


def test_a_runfile_too_old_for_the_image_is_not_offered_to_stay() -> None:
    (finding,) = driver(facts(runfile="/usr/bin/nvidia-uninstall", loaded=OLD), a_slice(UBUNTU))
    assert "manage=False" not in finding.attempt


def test_the_initial_state_of_a_host_is_reported_before_the_first_change() -> None:
    seen = facts(
        driver_packages=OF_LAMBDA,
        loaded=NEW,
        held="nvidia-utils-580-server docker-ce vim",
        upgrades='APT::Periodic::Unattended-Upgrade "1";\nUnattended-Upgrade::Automatic-Reboot "true";',
    )
    sentences = list(notes(seen, a_slice(UBUNTU)))
    assert [sentence.split("; ")[0] for sentence in sentences] == [
        "this image of Lambda came with driver 580.95.05",
        "held packages: nvidia-utils-580-server, docker-ce",
        "unattended upgrades are on",
        'unattended upgrades may reboot this host at any time: set Unattended-Upgrade::Automatic-Reboot to "false" in '
        "/etc/apt/apt.conf.d to be asked",
    ]


def test_a_plain_host_gets_no_notes() -> None:
    upgrades = facts(upgrades='APT::Periodic::Unattended-Upgrade "0";', held="vim")
    assert [*notes(upgrades, a_slice(UBUNTU)), *notes(facts(), a_slice(DEBIAN))] == []


POLICY = """Package files:
 100 /var/lib/dpkg/status
     release a=now
 600 https://mirror.example.com/cuda  Packages
     release o=NVIDIA,l=NVIDIA CUDA,c=
     origin mirror.example.com
 500 http://archive.ubuntu.com/ubuntu noble/restricted amd64 Packages
     release v=24.04,o=Ubuntu,a=noble,n=noble,l=Ubuntu,c=restricted,b=amd64
     origin archive.ubuntu.com
Pinned packages:
"""
OF_PACKAGES = """libnvidia-compute-580:
  Installed: 580.95.05-1ubuntu1
  Candidate: 580.95.05-1ubuntu1
  Version table:
 *** 580.95.05-1ubuntu1 600
        600 https://mirror.example.com/cuda  Packages
        100 /var/lib/dpkg/status
     580.82.07-0ubuntu1 500
        500 http://archive.ubuntu.com/ubuntu noble/restricted amd64 Packages
nvidia-utils-580-server:
  Installed: 580.65.06-0ubuntu0.24.04.1
  Candidate: 580.95.05-0ubuntu0.24.04.2
  Version table:
     580.95.05-0ubuntu0.24.04.2 500
        500 http://archive.ubuntu.com/ubuntu noble/restricted amd64 Packages
 *** 580.65.06-0ubuntu0.24.04.1 100
        100 /var/lib/dpkg/status
"""


def answers(folder: Path, commands: list[str], programs: dict[str, str]) -> HostFacts:
    """The answers to the commands, with these programs before the host's own."""
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    path = f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"
    ran = subprocess.run(
        ["sh", "-c", script(*commands)], env={"PATH": path}, capture_output=True, text=True, check=True
    )
    return HostFacts.parse(ran.stdout.splitlines())


def test_apt_s_own_words_are_read(tmp_path: Path) -> None:
    """A mirror is recognised by its signature; a superseded version has no source any more."""
    (tmp_path / "policy").write_text(POLICY)
    (tmp_path / "packages").write_text(OF_PACKAGES)
    (tmp_path / "installed").write_text(
        "ii  libnvidia-compute-580\nrc  nvidia-utils-535\nhi  nvidia-utils-580-server\n"
    )
    programs = {
        "dpkg-query": f"cat {tmp_path}/installed",
        "apt-cache": f"[ $# -gt 3 ] && cat {tmp_path}/packages || cat {tmp_path}/policy",
    }
    seen = answers(tmp_path, fact_commands(), programs)
    assert seen.value("driver-packages").splitlines() == [
        "libnvidia-compute-580 580.95.05-1ubuntu1 NVIDIA",
        "nvidia-utils-580-server 580.65.06-0ubuntu0.24.04.1 local",
    ]
    assert seen.value("held") == "nvidia-utils-580-server"
    assert [finding.kind for finding in driver_origins(seen, a_slice(UBUNTU))] == ["mixed-driver"]


DOCKERD = "/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock"


@pytest.mark.parametrize(
    ("words", "changes", "keys"),
    [
        (DOCKERD, {}, []),
        (f"{DOCKERD} --log-driver=journald", {}, ["log-driver"]),
        (f"{DOCKERD} --log-opt max-size=1g", {}, ["log-opts"]),
        (f"{DOCKERD} --feature cdi=true", {}, ["features"]),
        (f"{DOCKERD} --data-root /mnt/docker", {}, []),
        (f"{DOCKERD} --data-root /mnt/docker", {"data_root": "/data/docker"}, ["data-root"]),
        (DOCKERD, {"daemon": {"hosts": ["unix:///run/docker.sock"]}}, ["hosts"]),
        (f"{DOCKERD} --insecure-registry=r.example", {"daemon": {"insecure-registries": []}}, ["insecure-registries"]),
        ("", {}, []),
    ],
)
def test_a_dockerd_flag_duplicated_in_daemon_json_is_found_before_the_restart(
    words: str, changes: dict[str, Any], keys: list[str]
) -> None:
    plain = a_slice(UBUNTU)
    mine = a_slice(UBUNTU, docker=type(plain.docker)(**changes))
    seen = facts(dockerd_words=words, dockerd_files="/etc/systemd/system/docker.service.d/x.conf")
    twice = list(flags_twice(seen, mine))
    assert [finding.kind for finding in twice] == (["dockerd-flags"] if keys else [])
    assert all(key in finding.facts["wanted"] for finding in twice for key in keys)
    assert all("docker.service.d/x.conf" in finding.facts["found"] for finding in twice)


def test_short_flags_are_read_too() -> None:
    keys = keys_of("/usr/bin/dockerd -g /data -s overlay2 -D")
    assert keys == {"data-root": "-g", "storage-driver": "-s", "debug": "-D"}


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (DOCKERD, ""),
        (f"{DOCKERD} --config-file=/etc/docker/daemon.json", ""),
        (f"{DOCKERD} --config-file=/srv/docker.json", "/srv/docker.json"),
        (f"{DOCKERD} --config-file /srv/docker.json --debug", "/srv/docker.json"),
    ],
)
def test_a_daemon_that_reads_another_file_is_refused_before_the_first_change(words: str, path: str) -> None:
    """Settings for GPUs would be written to a file that dockerd never reads."""
    refusals = list(other_file(facts(dockerd_words=words), a_slice(UBUNTU)))
    assert [refusal.kind for refusal in refusals] == (["dockerd-config-file"] if path else [])
    assert all(refusal.attempt.startswith(f"cp {path} /etc/docker/daemon.json") for refusal in refusals)


def test_preflight_names_all_of_it_at_once() -> None:
    values = {**GOOD, "os": UBUNTU, "kernel": "6.8.0-85-generic"}
    values |= {"driver-packages": f"{OF_CANONICAL}\n{OF_NVIDIA}", "dockerd-words": f"{DOCKERD} --log-driver=journald"}
    kinds = [finding.kind for finding in judge(HostFacts(values=values), a_slice(UBUNTU), Defaults(), NOW)]
    assert kinds == ["mixed-driver", "dockerd-flags"]
