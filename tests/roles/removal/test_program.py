"""The program that removes everything, under a prefix, with stand-ins of systemd, Docker and apt.

More than 300 lines, because all of its cases share these stand-ins.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from host.removal import host_state, put_back
from roles.removal.sent import program

APT = """\
case "$*" in
  *--simulate*autoremove*) cat "$STATE/unneeded" 2>/dev/null;;
  *--simulate*purge*) cat "$STATE/would-go" 2>/dev/null;;
  *purge*) for name in "$@"; do sed -i "/^ii  $name\\$/d" "$STATE/installed"; done;;
esac
echo "apt-get $*" >>"$STATE/told"
"""


class Host:
    """A directory that stands for the host, and programs that record their calls."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / "state"
        (root / "bin").mkdir()
        self.state.mkdir()
        self.write("state/installed", "ii  base-files\n")
        self.program("systemctl", '[ "$1" != list-units ] || cat "$STATE/units"; echo "systemctl $*" >>"$STATE/told"')
        self.program("docker", 'echo "docker $*" >>"$STATE/told"; [ "$1 $2" != "ps --all" ] || cat "$STATE/containers"')
        self.program("dpkg-query", 'cat "$STATE/installed"')
        self.program("apt-mark", '[ "$1" != showhold ] || cat "$STATE/holds"; echo "apt-mark $*" >>"$STATE/told"')
        self.program("apt-get", APT)
        for name in ("iptables", "ip6tables", "update-initramfs", "groupdel", "userdel", "umount"):
            self.program(name, f'echo "{name} $*" >>"$STATE/told"')
        for name in ("units", "containers", "holds", "told"):
            self.write(f"state/{name}", "")

    def program(self, name: str, script: str) -> None:
        """Writes a program that takes the place of the real one."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def write(self, path: str, content: str = "x\n") -> Path:
        """Writes a file of the host."""
        made = self.root / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(content)
        return made

    def remember(self, packages: Sequence[str] = ("base-files",), **files: str) -> None:
        """Writes the record of the host before the first deploy."""
        host_state = {
            "packages": "\n".join(packages),
            "holds": "",
            "users": "root",
            "groups": "root",
            "paths": "",
        } | files
        for name, content in host_state.items():
            self.write(f"etc/enginehouse/before/{name.replace('_', '.')}", content)

    def call(self, verb: str = "remove") -> list[str]:
        """The program's lines of output."""
        environment = {"PATH": f"{self.root}/bin:/usr/bin:/bin", "ENGINEHOUSE_PREFIX": str(self.root)}
        command = [sys.executable, "-B", "-", verb]
        ran = subprocess.run(
            command,
            input=program(),
            env=environment | {"STATE": str(self.state)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    @property
    def acted(self) -> list[str]:
        """Every command that changes something."""
        asks = (
            "list-units",
            "simulate",
            "show",
            "docker ps",
            "network ls",
            "image inspect",
            "iptables -w -S",
            "ip6tables -w -S",
        )
        return [line for line in (self.state / "told").read_text().splitlines() if not any(ask in line for ask in asks)]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host without any of our files."""
    return Host(tmp_path)


def test_only_our_rules_and_our_chain_are_removed(host: Host) -> None:
    listed = [
        "-P OUTPUT ACCEPT",
        "-N ENGINEHOUSE-LOCAL",
        '-A OUTPUT -p tcp -m comment --comment "enginehouse: no way in" -j ENGINEHOUSE-LOCAL',
        "-A OUTPUT -p udp -j DROP",
        "-A ENGINEHOUSE-LOCAL -o lo -p tcp -j REJECT",
    ]
    rules = host.write("state/rules", "\n".join(listed) + "\n")
    host.program("iptables", f'echo "iptables $*" >>"$STATE/told"; [ "$2" != -S ] || cat {rules}')
    host.call()
    assert [line for line in host.acted if "iptables" in line] == [
        "iptables -w -D OUTPUT -p tcp -m comment --comment enginehouse: no way in -j ENGINEHOUSE-LOCAL",
        "iptables -w -F ENGINEHOUSE-LOCAL",
        "iptables -w -X ENGINEHOUSE-LOCAL",
    ]


def test_a_host_without_us_is_left_alone(host: Host) -> None:
    host.write("etc/docker/daemon.json", '{"debug": true}')
    assert (host.call(), host.acted) == ([], [])


def test_files_of_ours_go_and_others_beside_them_stay(host: Host) -> None:
    for path in ("etc/systemd/system/triton@.service", "etc/apt/apt.conf.d/52enginehouse-docker"):
        host.write(path)
    host.write("usr/local/lib/enginehouse/swap.py")
    host.write("etc/systemd/journald.conf.d/52-enginehouse.conf")
    theirs = [host.write("etc/systemd/system/theirs.service"), host.write("etc/apt/apt.conf.d/50theirs")]
    host.call()
    left = [path for path in host.root.rglob("*") if path.is_file() and path.parts[-2] not in ("bin", "state")]
    assert sorted(left) == sorted(theirs)
    assert not (host.root / "etc/systemd/journald.conf.d").exists()


def test_the_traffic_services_user_is_removed_after_its_processes(host: Host) -> None:
    host.program("getent", 'test "$*" = "passwd enginehouse-traffic" && echo "enginehouse-traffic:x:998:998::/:"')
    host.write("state/units", "enginehouse-traffic.service loaded active running x\n")
    assert host.call() == ["units: enginehouse-traffic.service", "user: enginehouse-traffic"]
    assert host.acted == ["systemctl stop enginehouse-traffic.service", "userdel enginehouse-traffic"]


@pytest.mark.parametrize("user", ["enginehouse-fetch", "enginehouse-share"])
def test_the_users_that_receive_files_are_removed(host: Host, user: str) -> None:
    host.program("getent", f'test "$*" = "passwd {user}" && echo "{user}:x:996:996::/:"')
    assert host.call() == [f"user: {user}"]
    assert host.acted == [f"userdel {user}"]


def test_the_user_of_the_gateway_goes_with_its_processes(host: Host) -> None:
    host.program("getent", 'test "$*" = "passwd enginehouse-gateway" && echo "enginehouse-gateway:x:997:997::/:"')
    host.write("state/units", "enginehouse-gateway@0.service loaded active running x\n")
    host.write("usr/local/lib/enginehouse/gateway/versions/1/gateway/app.py")
    host.call()
    assert (
        host.acted[0] == "systemctl stop enginehouse-gateway@0.service" and "userdel enginehouse-gateway" in host.acted
    )
    assert not (host.root / "usr/local/lib/enginehouse/gateway").exists()


def test_timers_are_stopped_first_and_missing_units_ignored(host: Host) -> None:
    host.write(
        "state/units",
        "triton@main.service loaded active running x\nenginehouse-watch@main.timer loaded active waiting x\n"
        "enginehouse-undo.service not-found inactive dead x\n",
    )
    host.call()
    assert host.acted == ["systemctl stop enginehouse-watch@main.timer triton@main.service"]


def test_a_server_that_a_stopped_swap_starts_again_is_stopped_too(host: Host) -> None:
    """The swap's ExecStopPost restores the earlier release, and starts it while the units are stopped."""
    host.write(
        "state/units",
        "enginehouse-swap@main.service loaded activating start x\ntriton@main.service loaded activating start x\n",
    )
    host.call()
    assert host.acted == ["systemctl stop enginehouse-swap@main.service triton@main.service"] * 2


def test_listing_touches_nothing(host: Host) -> None:
    host.remember()
    host.write("usr/local/lib/enginehouse/swap.py")
    host.write("state/installed", "ii  base-files\nii  docker-ce\n")
    printed = host.call("list")
    assert [line.split(":")[0].split(" (")[0] for line in printed] == ["files", "packages", "groups", "settings"]
    assert (host.acted, (host.root / "usr/local/lib/enginehouse/swap.py").exists()) == ([], True)


def test_only_packages_that_were_not_there_are_removed(host: Host) -> None:
    host.remember(["base-files", "docker-ce"])
    host.write("state/installed", "ii  base-files\nii  docker-ce\nhi  nvidia-driver-cuda\nii  theirs\n")
    host.call()
    purged = [line for line in host.acted if "purge" in line]
    assert [line.split("purge ")[1] for line in purged] == ["--allow-change-held-packages nvidia-driver-cuda"]


def test_units_that_packages_enabled_are_disabled_before_they_go(host: Host) -> None:
    host.remember()
    host.write("state/installed", "ii  base-files\nii  docker-ce\n")
    host.program("dpkg", "echo /usr/lib/systemd/system/docker.socket; echo /usr/bin/dockerd")
    host.call()
    assert host.acted[0] == "systemctl disable docker.socket"


def test_our_masks_of_a_packages_units_are_removed(host: Host) -> None:
    """Another mask is an operator's, and so is a unit of the same name that links elsewhere."""
    host.remember()
    host.write("state/installed", "ii  base-files\nii  prometheus\nii  prometheus-node-exporter\n")
    folder = host.root / "etc/systemd/system"
    folder.mkdir(parents=True)
    for name in ("prometheus", "prometheus-node-exporter", "theirs"):
        (folder / f"{name}.service").symlink_to("/dev/null")
    host.write("etc/systemd/system/prometheus-own.service")
    host.call()
    assert sorted(path.name for path in folder.iterdir()) == ["prometheus-own.service", "theirs.service"]
    assert any("purge" in line and "prometheus-node-exporter" in line for line in host.acted)


def test_a_family_something_of_others_needs_stays(host: Host) -> None:
    host.remember()
    host.write("state/installed", "ii  base-files\nii  docker-ce\nii  compose\n")
    host.write("state/would-go", "Purg docker-ce [1]\nPurg compose [2]\n")
    assert "stays: Docker (docker-ce), because of compose" in host.call()
    assert not any("purge" in line for line in host.acted)


def test_docker_stays_while_containers_of_others_exist(host: Host) -> None:
    host.remember()
    host.write("state/installed", "ii  base-files\nii  docker-ce\n")
    host.write("state/containers", "theirs\tname=theirs\n")
    assert "stays: Docker (docker-ce), because of container theirs" in host.call()


def test_dependencies_go_with_their_package_and_earlier_unused_packages_stay(host: Host) -> None:
    host.remember()
    host.write("state/installed", "ii  base-files\nii  rsync\nii  libpopt0\nii  idle\n")
    host.write("state/unneeded", "Remv idle [1]\n")
    host.program("apt-get", APT.replace("  *purge*)", '  *purge*) echo "Remv libpopt0 [1]" >>"$STATE/unneeded";'))
    host.call()
    purged = [line.split("packages ")[1] for line in host.acted if "purge" in line]
    assert purged[0] == "rsync"
    assert set(purged[1:]) == {"libpopt0"}


def test_without_a_record_packages_and_daemon_json_stay(host: Host) -> None:
    host.write("var/lib/enginehouse/history.jsonl")
    host.write("state/installed", "ii  docker-ce\n")
    host.write("etc/docker/daemon.json", '{"features": {"cdi": true}}')
    printed = host.call()
    assert "stays: every package; the packages from before the first deploy are not recorded" in printed
    assert (host.root / "etc/docker/daemon.json").read_text() == '{"features": {"cdi": true}}'


def test_holds_of_ours_are_lifted_and_theirs_stay(host: Host) -> None:
    host.remember(holds="linux-generic")
    host.write("state/holds", "linux-generic\ndocker-ce\n")
    host.call()
    assert "apt-mark unhold docker-ce" in host.acted


def test_a_source_that_was_set_aside_comes_back(host: Host) -> None:
    host.remember()
    host.write("etc/enginehouse/before/apt/sources.list.d/old.list", "deb http://old ./\n")
    host.write("etc/apt/sources.list.d/old.list", "# set aside by enginehouse: deb http://old ./\n")
    host.call()
    assert (host.root / "etc/apt/sources.list.d/old.list").read_text() == "deb http://old ./\n"


def test_contrib_goes_and_a_source_others_changed_too_stays(host: Host) -> None:
    host.remember()
    host.write("etc/enginehouse/before/apt/sources.list", "deb http://a bookworm main\n")
    host.write("etc/enginehouse/before/apt/sources.list.d/b.list", "deb http://b bookworm main\n")
    ours = host.write("etc/apt/sources.list", "deb http://a bookworm main contrib\n")
    theirs = host.write("etc/apt/sources.list.d/b.list", "deb http://c bookworm main contrib\n")
    host.call()
    assert ours.read_text() == "deb http://a bookworm main\n"
    assert theirs.read_text() == "deb http://c bookworm main contrib\n"


NOW = {"debug": False, "features": {"cdi": True}, "log-driver": "local", "log-opts": {"max-size": "1m", "tag": "t"}}


@pytest.mark.parametrize(
    ("now", "before", "wanted"),
    [
        (NOW, {}, {"debug": False, "log-opts": {"tag": "t"}}),
        (NOW, {"log-driver": "json-file"}, {"debug": False, "log-driver": "json-file", "log-opts": {"tag": "t"}}),
        ({"features": {"cdi": True, "buildkit": True}}, {}, {"features": {"buildkit": True}}),
        ({"features": {"cdi": True}}, {"features": {"cdi": False}}, {"features": {"cdi": False}}),
        ({"data-root": "/data/docker"}, {"data-root": "/srv"}, {"data-root": "/srv"}),
        ({"features": {"cdi": True}}, {}, {}),
    ],
)
def test_keys_of_daemon_json_are_taken_back_one_by_one(now: dict, before: dict, wanted: dict) -> None:
    assert put_back.unmerged(now, before) == wanted


def test_daemon_json_is_again_the_file_that_was_there_byte_by_byte(host: Host) -> None:
    host.remember(daemon_json='{"debug":   false}')
    path = host.write("etc/docker/daemon.json", json.dumps({"debug": False, "features": {"cdi": True}}))
    host.call()
    assert path.read_text() == '{"debug":   false}'


def test_a_daemon_json_with_our_keys_alone_is_removed(host: Host) -> None:
    host.remember()
    path = host.write("etc/docker/daemon.json", json.dumps({"features": {"cdi": True}}))
    host.call()
    assert not path.exists()


def test_the_record_goes_last(host: Host) -> None:
    host.remember()
    host.write("state/installed", "ii  base-files\nii  rsync\n")
    host.program("apt-get", 'case "$*" in *simulate*) ;; *purge*) exit 100;; esac')
    with pytest.raises(AssertionError):
        host.call()
    assert (host.root / "etc/enginehouse/before/packages").exists()


def test_a_second_removal_finds_nothing(host: Host) -> None:
    host.remember()
    host.write("usr/local/lib/enginehouse/swap.py")
    host.write("var/lib/enginehouse/releases/1/run")
    host.write("state/installed", "ii  base-files\nii  rsync\n")
    host.call()
    assert (host.call("list"), os.path.exists(host.root / "var/lib/enginehouse")) == ([], False)


@pytest.mark.parametrize("mounted", [False, True])
def test_an_interrupted_removal_leaves_no_partial_directory_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: bool
) -> None:
    """A later deploy would take a partial directory for a complete one."""
    data = tmp_path / "enginehouse"
    for marker in ("releases/1/server.json", "weights/llama/r1/manifest.sha256", "repairs/1/python"):
        (data / marker).parent.mkdir(parents=True)
        (data / marker).touch()
    (data / ".weights.removing/left").mkdir(parents=True)

    def cut(path: Path | str, ignore_errors: bool = False) -> None:
        if Path(path).name == "enginehouse" or not ignore_errors:
            raise KeyboardInterrupt
        removed(path, ignore_errors=True)

    removed = host_state.shutil.rmtree
    monkeypatch.setattr(host_state, "DATA", str(data))
    monkeypatch.setattr(host_state.os.path, "ismount", lambda path: mounted)
    with monkeypatch.context() as power:
        power.setattr(host_state.shutil, "rmtree", cut)
        with pytest.raises(KeyboardInterrupt):
            host_state.empty(str(data))
    assert sorted(os.listdir(data)) == [".releases.removing", ".repairs.removing", ".weights.removing"]
    host_state.empty(str(data))
    assert not data.exists() or not os.listdir(data)


DISK = "UUID=u-1 {} ext4 defaults,noatime,x-systemd.before=docker.service,nofail,x-systemd.device-timeout=30s 0 2"


def test_the_data_disk_is_unmounted_and_its_line_goes(host: Host) -> None:
    others = b"UUID=r / ext4 defaults 0 1\n# K\xf6ln\n"
    table = host.write("etc/fstab")
    table.write_bytes(others + DISK.format("/var/lib/enginehouse").encode() + b"\n")
    host.write("var/lib/enginehouse/docker/layer")
    assert any(line.startswith("disk: /var/lib/enginehouse: our files are removed") for line in host.call())
    assert (table.read_bytes(), "umount /var/lib/enginehouse" in host.acted) == (others, True)
    assert not (host.root / "var/lib/enginehouse/docker").exists()


@pytest.mark.parametrize("line", [DISK.format("/srv"), DISK.format("/var/lib/enginehouse").replace("noatime,", "")])
def test_a_disk_with_a_foreign_fstab_line_stays_unchanged(host: Host, line: str) -> None:
    table, theirs = host.write("etc/fstab", f"{line}\n"), host.write("srv/docker/layer")
    host.write("usr/local/lib/enginehouse/adopt-disk")
    assert not any(sentence.startswith("disk:") for sentence in host.call())
    assert (table.read_text(), theirs.exists(), "umount" in " ".join(host.acted)) == (f"{line}\n", True, False)
