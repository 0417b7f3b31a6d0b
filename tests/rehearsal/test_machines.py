"""Rehearsal machines are bare Debian VMs for a role: release, reboot, network, hardware, Docker.

They have their own number, and so their own bridge and state directory beside another running rehearsal.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal import cgroups, machines, network, nspawn, requirements
from rehearsal.hardware import NO_GPU, h100
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("numbers-8-and-9")]

PLACES = Places(REPOSITORY / ".rehearsal" / "number-9", 9)
DEVICE = "/sys/bus/pci/devices/0000:01:00.0"
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
INSTALL_MODULE = """
folder=/lib/modules/$(uname -r)/updates/dkms; mkdir -p $folder
for name in nvidia nvidia-modeset nvidia-uvm; do
    printf 'version=580.95.05\\ndescription=rehearsal stand-in\\n' > $folder/$name.ko
done
echo 'blacklist nouveau' > /etc/modprobe.d/no-nouveau.conf
"""
NODES = ["nvidia-caps", "nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2", "nvidia-uvm", "nvidia-uvm-tools",
         "nvidia0", "nvidiactl"]  # fmt: skip
PARAMETERS = [f"/sys/module/nvidia_{name}/parameters" for name in ("modeset", "uvm")]
"""Directories of module parameters, as on a real H100 with driver 580.159.04, which shows none of the nvidia module
itself."""
DEVICES = ["120 nvidia", "120 nvidiactl", "120 nvidia-modeset", "121 nvidia-uvm", "122 nvidia-caps"]
NUMBERS = ["nvidia-caps/nvidia-cap2 122:2", "nvidia-uvm 121:0", "nvidia0 120:0", "nvidiactl 120:255"]
"""Device numbers of the nodes. A real machine has major 195 and two that differ from boot to boot; minors are the real
ones."""
OPEN = "systemd-run --quiet --pipe --wait -p DevicePolicy=closed {} sh -c ': <>/dev/nvidiactl' 2>&1"
TINY_IMAGE = """
mkdir -p /root/tiny && cd /root/tiny
for file in /bin/echo $(ldd /bin/echo | grep -o '/[^ ]*'); do install -D $(readlink -f $file) .$file; done
tar -c . | docker import - tiny >/dev/null
"""


@pytest.fixture(scope="module", autouse=True)
def rehearsal() -> Iterator[None]:
    """Removes this rehearsal's machines before and after the tests."""
    if lacking := requirements.missing(PLACES):
        pytest.skip(requirements.explain(lacking))
    _throw_away()
    yield
    _throw_away()


def _throw_away() -> None:
    machines.down(PLACES)
    subprocess.run(["rm", "-rf", str(PLACES.snapshots)], check=True)


@pytest.fixture(scope="module")
def d13(rehearsal: None) -> Machine:
    """Returns a Debian 13 machine with an H100 that nouveau has taken at boot."""
    return machines.up(["d13"], "13", h100(), PLACES)[0]


@pytest.fixture(scope="module")
def d12(rehearsal: None) -> Machine:
    """Returns a Debian 12 machine without a GPU."""
    return machines.up(["d12"], "12", NO_GPU, PLACES)[0]


def ssh(machine: Machine, command: str, user: str = "operator") -> subprocess.CompletedProcess[str]:
    """Runs ssh like an operator, with the host key checked."""
    words = ["ssh", "-F", str(PLACES.ssh_config), "-o", "ControlPath=none", "-l", user, machine.name, command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)


def test_debian_13_answers_over_ssh_with_sudo(d13: Machine) -> None:
    assert ssh(d13, "sudo cat /etc/debian_version").stdout.startswith("13")


def test_debian_12_answers_over_ssh_with_sudo(d12: Machine) -> None:
    assert ssh(d12, "sudo cat /etc/debian_version").stdout.startswith("12")


def test_root_cannot_log_in(d13: Machine) -> None:
    assert ssh(d13, "true", user="root").returncode == 255


def test_systemd_has_nothing_to_complain_about(d12: Machine, d13: Machine) -> None:
    states = [machine.run("systemctl is-system-running --wait", check=False).stdout for machine in (d12, d13)]
    assert states == ["running\n", "running\n"]


def test_a_bare_machine_has_nothing_a_role_should_install(d12: Machine, d13: Machine) -> None:
    command = "for name in docker rsync curl python3; do command -v $name; done"
    assert [machine.run(command, check=False).stdout for machine in (d12, d13)] == ["", ""]


def test_apt_reaches_the_debian_archive(d12: Machine) -> None:
    shown = d12.run("apt-get update >/dev/null; apt-cache policy docker.io").stdout
    assert "Candidate: 20.10" in shown


def test_up_leaves_a_running_machine_as_it_is(d13: Machine) -> None:
    before = d13.run(BOOT_ID).stdout
    machines.up(["d13"], "13", h100(), PLACES)
    assert d13.run(BOOT_ID).stdout == before


def test_services_of_the_outer_machine_have_names_inside(d13: Machine) -> None:
    assert d13.run("getent hosts registry.rehearsal.internal").stdout.split()[0] == "10.213.9.1"


def test_neither_login_nor_entering_brings_the_right_to_load_modules(d13: Machine) -> None:
    command = "sed -n 's/^CapBnd:\\t//p' /proc/self/status"
    sets = [int(ssh(d13, command).stdout, 16), int(d13.run(command).stdout, 16)]
    cap_sys_module = 1 << 16
    assert [bounding_set & cap_sys_module for bounding_set in sets] == [0, 0]


def test_the_kernel_refuses_a_module_even_from_kmod_itself(d13: Machine) -> None:
    d13.run("ln -sfn $(command -v kmod) /root/insmod; head -c 100 /dev/zero > /root/any.ko")
    ran = ssh(d13, "sudo /root/insmod /root/any.ko")
    assert (ran.returncode, "Operation not permitted" in ran.stderr) == (1, True)


def test_an_unknown_module_is_not_found(d13: Machine) -> None:
    ran = d13.run("modprobe floppotron", check=False)
    kernel = d13.run("uname -r").stdout.strip()
    wanted = f"modprobe: FATAL: Module floppotron not found in directory /lib/modules/{kernel}\n"
    assert (ran.returncode, ran.stderr) == (1, wanted)


def test_the_kernel_has_everything_that_docker_needs(d13: Machine) -> None:
    assert d13.run("modprobe -a overlay br_netfilter", check=False).returncode == 0


def test_the_declared_gpu_is_in_the_pci_list(d13: Machine) -> None:
    assert d13.run(f"cat {DEVICE}/vendor {DEVICE}/device {DEVICE}/class").stdout == "0x10de\n0x2330\n0x030200\n"


def test_a_machine_without_a_gpu_shows_none(d12: Machine) -> None:
    assert d12.run("ls /sys/bus/pci/devices").stdout == ""


def test_the_driver_loads_only_after_a_reboot_removes_nouveau() -> None:
    machine = machines.up(["gpu"], "13", h100(), PLACES)[0]
    machine.run(INSTALL_MODULE)
    refused = machine.run("modprobe nvidia", check=False)
    assert (refused.returncode, refused.stderr) == (1, "modprobe: ERROR: could not insert 'nvidia': No such device\n")
    machine.reboot()
    assert machine.run("cat /sys/module/nvidia/version").stdout == "580.95.05\n"
    assert "rehearsal stand-in" in machine.run("cat /proc/driver/nvidia/version").stdout
    assert machine.run(f"basename $(readlink -f {DEVICE}/driver)").stdout == "nvidia\n"
    assert machine.run("test -c /dev/nvidia0 -a -c /dev/nvidiactl -a -c /dev/nvidia-uvm", check=False).returncode == 0
    assert machine.run("cd /dev && ls -d nvidia* nvidia-caps/*").stdout.split() == NODES
    assert machine.run("ls -d /sys/module/nvidia*/parameters").stdout.split() == PARAMETERS
    shown = machine.run("cd /dev; stat -c '%n %Hr:%Lr' nvidia-caps/nvidia-cap2 nvidia-uvm nvidia0 nvidiactl")
    assert shown.stdout.splitlines() == NUMBERS
    assert machine.run("realpath /dev/char/120:255 /dev/char/121:0").stdout == "/dev/nvidiactl\n/dev/nvidia-uvm\n"
    listed = machine.run("sed '/^Block/,$d' /proc/devices | grep nvidia").stdout
    assert sorted(listed.splitlines()) == sorted(DEVICES)
    assert not Path("/sys/module/nvidia_uvm").exists()


@pytest.mark.parametrize(
    ("allowed", "says"),
    [("", "Operation not permitted"), ("-p 'DeviceAllow=char-nvidia* rw'", "No such device or address")],
)
def test_a_unit_reaches_the_card_only_if_its_device_rules_name_it(allowed: str, says: str) -> None:
    # systemd lets every unit open /dev/null, so a simulated card with its device numbers would pass without a rule.
    machine = machines.up(["gpu"], "13", h100(), PLACES)[0]
    assert says in machine.run(OPEN.format(allowed), check=False).stdout


def test_a_driver_in_use_stays_loaded_until_it_is_let_go() -> None:
    machine = machines.up(["held"], "13", h100(nouveau=False), PLACES)[0]
    machine.run(INSTALL_MODULE + "modprobe nvidia; echo '1 tritonserver' > /run/rehearsal/nvidia-users")
    refused = machine.run("rmmod nvidia", check=False)
    assert (refused.returncode, refused.stderr) == (1, "rmmod: ERROR: Module nvidia is in use\n")
    machine.run("echo > /run/rehearsal/nvidia-users; rmmod nvidia")
    assert machine.run("test -e /sys/module/nvidia -o -e /proc/driver/nvidia", check=False).returncode == 1
    assert machine.run("grep nvidia /proc/devices", check=False).stdout == ""


def test_a_reboot_is_a_true_one_and_keeps_the_disk(d12: Machine) -> None:
    before = d12.run("echo kept > /root/kept; " + BOOT_ID).stdout
    d12.reboot()
    assert d12.run(BOOT_ID).stdout != before
    assert d12.run("cat /root/kept").stdout == "kept\n"


def test_a_slow_boot_ends_with_a_network_too(d12: Machine) -> None:
    # /sys is writable while the simulated hardware is laid out; a networkd that started then would wait for udev
    # without end.
    d12.run("sed -i 's/mount -o remount,rw .sys$/&; sleep 2/' /usr/lib/rehearsal/show-hardware")
    d12.put("/etc/systemd/system/systemd-networkd.service.d/late.conf", "[Service]\nExecStartPre=!/bin/sleep 1\n")
    try:
        d12.reboot()
    finally:
        d12.run(
            "sed -i 's/; sleep 2$//' /usr/lib/rehearsal/show-hardware; rm -r /etc/systemd/system/systemd-networkd*.d"
        )


def test_a_machine_that_is_up_lets_its_user_in(d12: Machine) -> None:
    # sshd accepts connections before systemd-user-sessions removes /run/nologin, which refuses logins until then.
    late = "/etc/systemd/system/systemd-user-sessions.service.d/late.conf"
    d12.put(late, "[Service]\nExecStartPre=/bin/sleep 4\n")
    try:
        d12.power_cycle()
        assert ssh(d12, "true").returncode == 0
    finally:
        d12.run(f"rm -r {late.rpartition('/')[0]}; systemctl daemon-reload")


def test_a_machine_boots_after_a_power_cut(d12: Machine) -> None:
    before = d12.run(BOOT_ID).stdout
    d12.power_cycle()
    assert d12.run(BOOT_ID).stdout != before


def test_a_link_limit_outlives_a_reboot(d12: Machine) -> None:
    d12.limit_rate("100mbit")
    d12.power_cycle()
    shown = subprocess.run(["tc", "qdisc", "show", "dev", "vb-r9-d12"], capture_output=True, text=True, check=True)
    assert "rate 100Mbit" in shown.stdout


def test_a_machine_that_outlived_its_supervisor_is_ended_before_it_starts_again() -> None:
    machine = machines.up(["orphan"], "13", NO_GPU, PLACES)[0]
    supervisor, leader = nspawn.supervisor_pid(machine.directory), nspawn.leader_pid(machine.directory)
    assert supervisor and leader
    subprocess.run(["kill", "-KILL", str(supervisor)], check=True)
    machines.up(["orphan"], "13", NO_GPU, PLACES)
    assert nspawn.start_time(leader) is None
    assert machine.state == "running"


def test_forks_of_a_snapshot_run_docker_and_share_no_identity() -> None:
    origin = machines.up(["origin"], "13", NO_GPU, PLACES)[0]
    origin.run("apt-get update && apt-get install --yes --no-install-recommends docker.io docker-cli")
    origin.run(TINY_IMAGE)
    origin.stop()
    machines.snapshot(origin, "docker")
    forks = machines.up(["forka", "forkb"], places=PLACES, snapshot="docker")
    assert [fork.run("docker run --rm tiny /bin/echo hello").stdout for fork in forks] == ["hello\n", "hello\n"]
    assert len({fork.run("cat /etc/machine-id").stdout for fork in forks}) == 2
    assert len({fork.run("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout for fork in forks}) == 2
    assert len({fork.address for fork in forks}) == 2


def test_a_running_machine_is_not_snapshotted(d13: Machine) -> None:
    with pytest.raises(RehearsalRefused, match="d13 is running; a snapshot is taken of a machine that is off"):
        machines.snapshot(d13, "never")


def test_a_bridge_of_another_rehearsal_is_left_alone(d13: Machine, tmp_path: Path) -> None:
    with pytest.raises(RehearsalRefused, match="the bridge rehearsal9 belongs to another rehearsal"):
        machines.up(["d13"], places=Places(tmp_path, 9))


def test_a_bridge_of_an_abandoned_rehearsal_is_reused(tmp_path: Path) -> None:
    killed, mine, tap = Places(tmp_path / "killed", 8), Places(tmp_path / "mine", 8), network.Network(8).link("power")
    network.bring_up(killed)
    for words in (("tuntap", "add", "dev", tap, "mode", "tap"), ("link", "set", tap, "master", "rehearsal8", "up")):
        subprocess.run(["ip", *words], check=True)  # remains when QEMU is killed
    network.bring_up(mine)
    shown = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    network.take_down(mine)
    assert f"alias {mine.root}" in shown and tap not in shown
    assert not Path("/sys/class/net/rehearsal8").exists()


def test_a_bridge_where_a_service_still_listens_is_left_alone(tmp_path: Path) -> None:
    there = network.bring_up(Places(tmp_path / "there", 8))
    with socket.create_server((there.bridge_address, 0)), pytest.raises(RehearsalRefused, match="belongs to another"):
        network.bring_up(Places(tmp_path / "mine", 8))
    network.take_down(Places(tmp_path / "there", 8))


def test_down_leaves_nothing_behind() -> None:
    places = Places(REPOSITORY / ".rehearsal" / "number-8", 8)
    machines.up(["gone"], "13", NO_GPU, places)
    machines.down(places)
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "REHEARSAL8" not in rules
    assert "r8-gone" not in processes and str(places.machines) not in processes
    assert str(places.root) not in Path("/proc/self/mounts").read_text()
    assert not Path("/sys/class/net/rehearsal8").exists()
    assert not any(group.exists() for group in cgroups.of_machine(8, "gone"))
    assert machines.known(places) == []
    assert network.Network(8).link("gone") == "vb-r8-gone"
