"""From a bare Ubuntu to a service, with the programs that such a host runs without being asked; then removal.

Each release has a machine, made of Ubuntu's own archive (`make test-ubuntu` names it), and the tests are one story in
their order.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest import mock
from xml.etree import ElementTree

import pytest

from deploy.catalog import HAPROXY_FLOOR, SYSTEMS, System
from deploy.catalog.versions import at_least
from deploy.slices.host import Slice
from deploy.spec import Machine
from rehearsal import machine as machines
from rehearsal import ubuntu
from rehearsal.places import REPOSITORY, Places
from roles.nvidia_driver import packages as driver_packages
from tests.rehearsal.acme import NAME
from tests.rehearsal.operator import Operator, Run, fresh_machines
from tests.rehearsal.test_health import ALLOWED, FILES
from tests.unit.certificates import write_certificate

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("number-17")]

PLACES = Places(REPOSITORY / ".rehearsal" / "number-17", 17)
INVENTORY = "inventories/rehearsal.py"
MIRRORED = "tests/ubuntu/inventories/mirrored.py"
ARCHIVE = "-oDir::Etc::SourceList=/etc/apt/sources.list.d/ubuntu.sources -oDir::Etc::SourceParts=/dev/null"
"""Options with which apt reads only Ubuntu's archive, without the rehearsal's stand-ins."""
VERSIONS = {
    "22.04": r"systemd 249|openssh-server 1:8\.9|apt 2\.4",
    "24.04": r"systemd 255|openssh-server 1:9\.6|apt 2\.8",
    "26.04": r"systemd 259|openssh-server 1:10\.2|apt 3\.2",
}
LIBRARIES = "libc6 zlib1g $(dpkg-query --show --showformat '${Package} ' 'libssl3*')"
OURS = ("enginehouse-gateway@0", "enginehouse-traffic", "docker", "containerd", "triton@main")
UBUNTUS = (
    "/boot/vmlinuz-",
    "/home/operator/.cache/motd",
    "/var/lib/ubuntu-release-upgrader/",
    "/var/lib/update-notifier/",
)
"""Paths of files that Ubuntu's own programs write, and of the running kernel."""
LEFT = {"/etc/apt/sources.list", "/var/lib/haproxy/dev/log"}
"""The empty file that `unattended-upgrade` writes, and the socket that rsyslog opened for HAProxy's package."""
WITNESS = "cron"
"""A unit of Ubuntu that needrestart does restart, which proves that needrestart ran."""


@dataclass(frozen=True)
class Story:
    """The machine, its operator, the machine's initial files, and apt's answer about the driver's packages."""

    release: str
    machine: machines.Machine
    operator: Operator
    files: list[str]
    offered: str
    dry: Run
    first: Run

    @property
    def system(self) -> System:
        """The release as the catalog has it."""
        return SYSTEMS[self.machine.os]

    @property
    def made(self) -> ubuntu.Release:
        """The release as machines are made of it."""
        return ubuntu.RELEASES[self.release]

    @property
    def has_https(self) -> bool:
        """False if HAProxy of the release is too old for HTTPS."""
        return at_least(self.system.haproxy, HAPROXY_FLOOR)

    def says(self, command: str) -> str:
        """Output of a command on the machine."""
        return self.machine.run(command, check=False, timeout=600).stdout.strip()

    def processes(self) -> dict[str, str]:
        """The main process of each unit that serves, and of the witness."""
        return {unit: self.says(f"systemctl show -p MainPID --value {unit}") for unit in (*OURS, WITNESS)}


@pytest.fixture(scope="module", params=ubuntu.RELEASES)
def story(request: pytest.FixtureRequest) -> Iterator[Story]:
    """A machine of a release after its first deploy; removed before and afterwards."""
    release = str(request.param)
    with fresh_machines(PLACES, [f"u{release[:2]}a"], release) as (operator, (machine,)):
        machine.run("apt-get -qq update", timeout=600)
        wanted = " ".join(wanted_packages(release))
        offered = machine.run(f"apt-get install --simulate {ARCHIVE} {wanted}", check=False).stdout
        files = machine.run(FILES).stdout.splitlines()
        dry = operator.pyinfra("--dry")
        first = operator.pyinfra()
        assert first.code == 0, first.output[-4000:]
        yield Story(release, machine, operator, files, offered, dry, first)


def wanted_packages(release: str) -> dict[str, str]:
    """Names of the driver's packages as the role asks apt for them."""
    driver = SimpleNamespace(branch="580", version="", source="canonical")
    mine = SimpleNamespace(driver=driver, machine=Machine(os=f"ubuntu-{release}", gpu="h100-80"))
    return driver_packages.wanted(cast(Slice, mine), ubuntu.RELEASES[release].kernel)


def test_the_machine_is_ubuntu_with_its_own_systemd_sshd_apt_and_python(story: Story) -> None:
    assert story.says(". /etc/os-release; echo $ID-$VERSION_ID") == story.machine.os == f"ubuntu-{story.release}"
    versions = story.says("dpkg-query -W -f='${Package} ${Version}\\n' systemd openssh-server apt python3")
    wanted = rf"^({VERSIONS[story.release]}|python3 {re.escape(story.system.python)})"
    assert len(re.findall(wanted, versions, re.M)) == 4, versions
    assert "ubuntu" in versions


def test_ubuntus_archive_has_the_drivers_packages_by_the_names_of_the_role(story: Story) -> None:
    """apt's own resolution, without the stand-ins, would install the same driver packages as the role holds."""
    installed = set(re.findall(r"^Inst (\S+)", story.offered, re.M))
    assert set(wanted_packages(story.release)) <= installed
    of_driver = {name for name in installed if "nvidia" in name}
    assert set(driver_packages.of_driver(installed)) == of_driver
    newer = re.search(rf"^Inst linux-image-{re.escape(story.system.kernel)}\.0-\d+-generic ", story.offered, re.M)
    assert newer, "the packages bring the kernel that their modules are for"


def test_a_first_run_deploys(story: Story) -> None:
    assert (story.first.results["failed_hosts"], story.first.results["totals"]["error"]) == ([], 0)
    assert story.first.told_of("Triton | Swap in release") == [story.machine.name]


def test_every_change_was_announced_by_the_dry_run(story: Story) -> None:
    announced = story.dry.announced
    assert {change: name for change, name in story.first.changed.items() if change not in announced} == {}


def test_canonicals_driver_came_with_a_newer_kernel_and_one_reboot(story: Story) -> None:
    assert story.says("uname -r") == story.made.newer_kernel != story.made.kernel
    assert len(set(re.findall(r"\b[0-9a-f]{32}\b", story.says("journalctl --list-boots")))) == 2
    assert story.first.told_of("Driver | Reboot, confirmed") == [story.machine.name]
    held = set(story.says("apt-mark showhold").split())
    assert {"nvidia-utils-580-server", "nvidia-headless-no-dkms-580-server-open", "docker-ce"} <= held
    assert story.says("systemctl show -p ActiveState,UnitFileState nvidia-persistenced").split() == [
        "ActiveState=active", "UnitFileState=static"
    ]  # fmt: skip


def test_a_second_run_changes_nothing_and_a_dry_run_announces_nothing(story: Story) -> None:
    again = story.operator.pyinfra()
    assert (again.code, again.changed, again.results["totals"]["error"]) == (0, {}, 0)
    after = story.operator.pyinfra("--dry")
    assert (after.code, after.announced) == (0, {})


def test_the_smoke_tests_pass(story: Story) -> None:
    report = story.machine.directory / "smoke.xml"
    words = ("tests/smoke", "--inventory", INVENTORY, f"--junitxml={report}", "-p", "no:cacheprovider")
    ended = story.operator.python("-m", "pytest", *words)
    assert ended.returncode == 0, ended.stdout
    assert sum(len(case) == 0 for case in ElementTree.parse(report).iter("testcase")) >= 30


def test_the_doctor_finds_nothing_that_is_broken(story: Story) -> None:
    ended = story.operator.python("-m", "deploy", "doctor", INVENTORY)
    assert re.search(r"^verdict: (healthy|warnings), 1 of 1 hosts asked", ended.stdout, re.M), ended.stdout


def test_libraries_that_are_replaced_restart_nothing_that_serves(story: Story) -> None:
    """On Ubuntu, needrestart restarts programs with old libraries without asking: an upgrade of libc must not cut
    streams."""
    before = story.processes()
    assert "0" not in before.values()
    # Without a terminal, needrestart of 22.04 restarts only if told to.
    mode = "NEEDRESTART_MODE=a" if story.release == "22.04" else ""
    replaced = story.says(f"{mode} apt-get install --yes --reinstall {LIBRARIES} 2>&1")
    after = story.processes()
    assert after[WITNESS] != before[WITNESS], replaced
    assert {unit: after[unit] for unit in OURS} == {unit: before[unit] for unit in OURS}, replaced


def test_unattended_upgrades_leave_driver_docker_and_toolkit_alone(story: Story) -> None:
    blacklist = story.says("unattended-upgrade --dry-run --verbose 2>&1 | grep '^Initial blacklist'")
    patterns = blacklist.partition(":")[2].split()
    held = story.says("apt-mark showhold").split()
    guarded = [name for name in held if name.startswith(("docker", "containerd", "nvidia", "libnvidia", "linux-mod"))]
    assert len(guarded) >= 10
    assert [name for name in guarded if not any(re.match(pattern, name) for pattern in patterns)] == []


def test_with_ufw_on_a_run_changes_nothing_and_the_server_answers(story: Story) -> None:
    story.machine.run("ufw allow 22/tcp && ufw --force enable")
    try:
        again = story.operator.pyinfra()
        assert (again.code, again.changed) == (0, {})
        ready = f"curl -s -o /dev/null -w '%{{http_code}}' {story.machine.address}:8000/v2/health/ready"
        assert story.says(ready) == "200"
    finally:
        story.machine.run("ufw disable")


@pytest.fixture(scope="module")
def mirrored(story: Story) -> Iterator[tuple[Path, Run]]:
    """The certificate that clients trust, and the run that put HAProxy before the gateway."""
    certificate = write_certificate(PLACES.root, "own", names=(NAME,))
    with mock.patch.dict(os.environ, {"HTTPS": "file" if story.has_https else "none"}):
        run = story.operator.pyinfra(inventory=MIRRORED)
        assert run.code == 0, run.output[-4000:]
        yield certificate, run


def test_a_mirror_of_ubuntu_is_all_that_apt_reads(story: Story, mirrored: tuple[Path, Run]) -> None:
    update = story.says("apt-get update 2>&1")
    assert re.search(rf"^(Hit|Get):\d+ \S+ {story.system.codename}-security InRelease", update, re.M), update
    assert ("canonical" in update, "Err:" in update, "W:" in update) == (False, False, False), update


def test_https_is_served_by_ubuntus_own_haproxy_or_refused_for_its_age(
    story: Story, mirrored: tuple[Path, Run]
) -> None:
    if not story.has_https:
        with mock.patch.dict(os.environ, {"HTTPS": "file"}):
            refused = story.operator.pyinfra(inventory=MIRRORED)
        assert (refused.code != 0, refused.changed) == (True, {})
        assert f"HAProxy {HAPROXY_FLOOR} or newer" in refused.output
        return
    assert story.says("haproxy -v").startswith(f"HAProxy version {story.system.haproxy}.")
    command = ["curl", "-s", "--cacert", str(mirrored[0]), "--resolve", f"{NAME}:443:{story.machine.address}"]
    assert subprocess.run([*command, "-f", f"https://{NAME}/health"], check=False, capture_output=True).returncode == 0


def test_with_mirror_and_https_a_second_run_changes_nothing(story: Story, mirrored: tuple[Path, Run]) -> None:
    again = story.operator.pyinfra(inventory=MIRRORED)
    assert (again.code, again.changed) == (0, {})


@pytest.fixture(scope="module")
def removed(story: Story, mirrored: tuple[Path, Run]) -> Run:
    """The run of `remove.py` that removes everything from the host."""
    return story.operator.pyinfra("--data", "remove=yes", inventory=MIRRORED, verb="remove.py")


def test_removal_leaves_nothing_of_ours(story: Story, removed: Run) -> None:
    assert removed.code == 0, removed.output[-4000:]
    assert story.says("systemctl list-unit-files --no-legend 'enginehouse*' 'triton@*'") == ""
    assert story.says("ls /etc/needrestart/conf.d /etc/apt/apt.conf.d /etc/apt/sources.list.d | grep enginehouse") == ""
    now = story.machine.run(FILES).stdout.splitlines()
    differing = {path for path in {*now} ^ {*story.files} if not path.startswith((*ALLOWED, *UBUNTUS))}
    assert "\n".join(sorted(differing - LEFT)) == ""
    assert story.says("apt-get -qq check; dpkg --audit") == ""
