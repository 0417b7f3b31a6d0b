"""A foreign Docker is reported before the first change, with a remedy that fits the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.refusals.errors import Refusal
from deploy.slices.host import Slice
from deploy.spec import Docker
from roles._pyinfra.facts import HostFacts, Installed, script
from roles.preflight.defaults import Defaults
from roles.preflight.docker import fact_commands, foreign_docker
from roles.preflight.judge import judge
from tests.roles.slices import a_slice

DISTRIBUTION = Docker(source="distribution")


def findings(mine: Slice, packages: dict[str, str] | None = None, **values: str) -> list[Refusal]:
    """Findings on a host with these packages and answers."""
    installed = {name: Installed(version) for name, version in (packages or {}).items()}
    seen = HostFacts(packages=installed, values={name.replace("_", "-"): value for name, value in values.items()})
    return list(foreign_docker(seen, mine))


def test_on_debian_12_its_own_docker_is_never_offered() -> None:
    (finding,) = findings(a_slice("debian-12"), {"docker.io": "20.10.24+dfsg1-1+deb12u1"})
    assert str(finding) == (
        "host: another Docker is installed: docker.io\n"
        "  found   docker.io 20.10.24+dfsg1-1+deb12u1\n"
        "  wanted  docker-ce, or no Docker yet\n"
        "  means   its containers would be stopped, and the new Docker would not find its images\n"
        "  try     apt-get purge docker.io on the host, and run again; docker.io 20.10.24 of debian-12 cannot attach a "
        "GPU, so it cannot stay\n"
        "  state   preflight; no host was changed"
    )


@pytest.mark.parametrize(
    ("os", "version", "offered"),
    [
        (
            "debian-13",
            "26.1.5+dfsg1-9+b4",
            'docker = Docker(source="distribution") keeps it; or apt-get purge docker.io',
        ),
        (
            "ubuntu-24.04",
            "29.1.3-0ubuntu3~24.04.1",
            'docker = Docker(source="distribution") keeps it; or apt-get purge',
        ),
        (
            "ubuntu-22.04",
            "24.0.7-0ubuntu2~22.04.1",
            "apt-get install docker.io on the host brings 29.1.3, which",
        ),
    ],
)
def test_elsewhere_it_is_offered_where_it_can_attach_a_gpu(os: str, version: str, offered: str) -> None:
    (finding,) = findings(a_slice(os), {"docker.io": version})
    assert finding.attempt.startswith(offered)


@pytest.mark.parametrize(
    ("packages", "values", "what", "offered"),
    [
        ({"podman-docker": "5.4.2"}, {}, "podman-docker", "apt-get purge podman-docker on the host"),
        ({"moby-engine": "25.0.6"}, {}, "moby-engine", "apt-get purge moby-engine moby-cli on the host"),
        ({"docker-engine": "1.11"}, {}, "docker-engine", "apt-get purge docker-engine on the host"),
        ({}, {"snap_docker": "3265"}, "the snap docker", "snap remove docker on the host"),
        ({}, {"stray_docker": "/usr/local/bin/dockerd"}, "/usr/local/bin/dockerd", "systemctl disable --now docker"),
    ],
    ids=lambda value: str(value),
)
def test_every_other_docker_is_found(packages: dict[str, str], values: dict[str, str], what: str, offered: str) -> None:
    (finding,) = findings(a_slice("ubuntu-24.04"), packages, **values)
    assert (finding.problem, finding.kind) == (f"host: another Docker is installed: {what}", "foreign-docker")
    assert finding.attempt.startswith(offered)


def test_dockers_own_package_is_foreign_where_the_distributions_is_wanted() -> None:
    (finding,) = findings(a_slice("debian-13", docker=DISTRIBUTION), {"docker-ce": "5:29.1.3-1~debian.13~trixie"})
    assert finding.attempt.startswith(
        'docker = Docker(source="docker") keeps it; or apt-get purge docker-ce docker-ce-cli'
    )


@pytest.mark.parametrize(("source", "package"), [(Docker(), "docker-ce"), (DISTRIBUTION, "docker.io")])
def test_a_host_that_has_the_wanted_one_is_left_alone(source: Docker, package: str) -> None:
    """The host was deployed before, so its second Docker was there all the time."""
    assert findings(a_slice("debian-13", docker=source), {package: "29"}, snap_docker="1", stray_docker="/opt/d") == []


def test_preflight_reports_a_foreign_docker() -> None:
    seen = HostFacts(packages={"docker.io": Installed("29.1.3")})
    assert "foreign-docker" in [finding.kind for finding in judge(seen, a_slice("ubuntu-24.04"), Defaults(), 0)]


@pytest.mark.parametrize(("owner", "is_stray"), [("exit 1", True), ("echo docker-ce: $1", False)])
def test_a_dockerd_without_a_package_is_distinguished(tmp_path: Path, owner: str, is_stray: bool) -> None:
    """The question as a host's shell runs it."""
    for name, lines in {"dockerd": "", "dpkg": owner, "dpkg-query": "exit 1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    shell = subprocess.run(["bash", "-c", script(*fact_commands())], env={"PATH": path}, capture_output=True, text=True)
    seen = HostFacts.parse(shell.stdout.splitlines())
    assert seen.value("stray-docker") == (str(tmp_path / "dockerd") if is_stray else "")
