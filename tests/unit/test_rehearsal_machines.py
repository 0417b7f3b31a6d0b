"""Decisions of a rehearsal before its first change: addresses, names, hardware, missing programs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from rehearsal import forks, network, nspawn, requirements, ssh
from rehearsal.hardware import h100
from rehearsal.machine import Machine
from rehearsal.network import Network
from rehearsal.places import Places, RehearsalRefused, cache
from rehearsal.requirements import Missing
from rehearsal.waiting import wait_for


def test_the_first_rehearsal_has_the_published_bridge_address() -> None:
    assert Network(0).bridge_address == network.BRIDGE_ADDRESS == "10.213.0.1"


def test_rehearsals_of_different_numbers_share_neither_bridge_nor_addresses() -> None:
    assert (Network(3).bridge, Network(3).machine_address(1)) == ("rehearsal3", "10.213.3.11")


def test_the_longest_machine_name_still_names_a_network_link() -> None:
    assert len(Network(9).link("a23456789")) == 15


@pytest.mark.parametrize("name", ["", "D13", "13d", "d13-a", "a234567890"])
def test_a_name_that_makes_no_link_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RehearsalRefused, match="a machine cannot be called"):
        forks.fork(tmp_path / (name or "."), Places(tmp_path), "13", h100(), None)


def test_the_cache_follows_the_users_own_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOUSE_CACHE", "/srv/cache")
    assert cache() == Path("/srv/cache/rehearsal")


def test_the_kernel_and_the_clock_are_out_of_reach() -> None:
    words = nspawn.arguments(Path("/m"), "d13a", Network(0))
    assert "--drop-capability=CAP_SYS_MODULE,CAP_SYS_TIME" in words


def test_weights_and_containers_lie_on_plain_directories() -> None:
    words = nspawn.arguments(Path("/m"), "d13a", Network(0))
    assert [word for word in words if word.startswith("--bind=")] == [
        "--bind=/m/volumes/docker:/var/lib/docker",
        "--bind=/m/volumes/containerd:/var/lib/containerd",
        "--bind=/m/volumes/enginehouse:/var/lib/enginehouse",
    ]


def test_an_h100_is_described_by_its_pci_ids_and_memory() -> None:
    device = json.loads(h100().to_json())["pci"][0]
    assert (device["vendor"], device["device"], device["memory_mib"]) == ("10de", "2330", 81559)


def test_the_table_for_shells_says_the_same_as_the_json() -> None:
    assert h100(nouveau=False).to_table() == (
        "nouveau\tno\nsecure_boot\tno\n"
        "pci\t0000:01:00.0\t10de\t2330\t0x030200\t81559\t"
        "GPU-7ec0ffee-0000-4000-8000-000000000001\tNVIDIA H100 80GB HBM3\n"
    )


def test_nvswitches_are_bridges_without_memory() -> None:
    last = h100(gpus=8, nvswitches=4).pci[-1]
    assert (last.address, last.device, last.class_code, last.memory_mib) == ("0000:83:00.0", "22a3", "0x068000", 0)


def test_all_missing_requirements_are_named_at_once_with_their_packages() -> None:
    lacking = [Missing("the program mmdebstrap", "mmdebstrap"), Missing("root: namespaces need it")]
    assert requirements.explain(lacking) == (
        "this machine cannot host rehearsal machines yet\n"
        "  missing the program mmdebstrap\n"
        "  missing root: namespaces need it\n"
        "  try     apt-get install mmdebstrap   (or `python -m rehearsal up --install`)\n"
        "  means   no package brings the rest: use a Linux VM where you are root\n"
        "  state   nothing was started"
    )


def test_promtool_comes_without_a_running_prometheus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Prometheus' unit is masked during the installation; afterwards it is unmasked and disabled."""
    unit, wanted = tmp_path / "prometheus.service", tmp_path / "multi-user.target.wants" / "prometheus.service"
    seen: list[str] = []

    def apt(words: list[str], **_: object) -> None:
        if "install" in words:
            seen.append(os.readlink(unit))
            wanted.parent.mkdir()
            wanted.symlink_to("/lib/systemd/system/prometheus.service")

    monkeypatch.setattr(requirements, "UNITS", tmp_path)
    monkeypatch.setattr(requirements.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(requirements.subprocess, "run", apt)
    requirements.install([Missing("the program promtool", "prometheus")])
    assert seen == ["/dev/null"]
    assert not os.path.lexists(unit) and not os.path.lexists(wanted)


def test_promtool_is_of_the_package_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = []
    for system in ("debian 12", "debian 13", "ubuntu 24.04", "ubuntu 26.04"):
        release = dict(zip(("ID", "VERSION_ID"), system.split(), strict=True))
        monkeypatch.setattr(requirements.platform, "freedesktop_os_release", lambda release=release: release)
        packages.append(requirements.promtool_package())
    assert packages == ["prometheus", "promtool", "prometheus", "promtool"]


def test_a_machine_that_is_not_linux_lacks_just_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(requirements.platform, "system", lambda: "Darwin")
    assert [requirement.what for requirement in requirements.missing(Places(tmp_path))] == [
        "Linux: machines share the kernel of the outer machine, and this is Darwin"
    ]


def test_ssh_knows_every_host_before_first_contact(tmp_path: Path) -> None:
    places = Places(tmp_path)
    ssh.write_config(places, [("d13a", "10.213.0.10", "ssh-ed25519 AAAA")])
    assert places.known_hosts.read_text() == "d13a,10.213.0.10 ssh-ed25519 AAAA\n"
    assert "    StrictHostKeyChecking yes\n" in places.ssh_config.read_text()


def test_a_deep_checkout_still_has_room_for_ssh_sockets() -> None:
    deep = Places(Path("/" + "deep/" * 30))
    assert len(str(ssh.control_directory(deep))) < ssh.SOCKET_PATH_BYTES


def test_a_process_is_not_taken_for_the_supervisor_by_its_pid_alone(tmp_path: Path) -> None:
    (tmp_path / "supervisor.json").write_text(json.dumps({"pid": 1, "started": -1}))
    assert nspawn.supervisor_pid(tmp_path) is None


def test_a_machine_that_does_not_boot_is_reported_with_its_console(tmp_path: Path) -> None:
    class Silent(Machine):
        state = "running"

        def run(self, command: str, **options: object) -> subprocess.CompletedProcess[str]:
            return subprocess.CompletedProcess(command, 0, "degraded\nhost0 DOWN\n", "")

    with pytest.raises(RehearsalRefused) as refused:
        wait_for(lambda: False, 0, Silent("nobody", Places(tmp_path)))
    lines = [line.strip() for line in str(refused.value).splitlines()]
    assert {"state   running", "degraded", "host0 DOWN"} <= set(lines)
