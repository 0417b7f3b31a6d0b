"""Preflight findings on machines that differ from the declared one; facts are scripted in the host's output format."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest

from deploy.refusals.errors import Refusal
from deploy.slices.host import Slice
from roles import preflight
from roles._pyinfra.facts import HostFacts
from roles.preflight.defaults import Defaults
from roles.preflight.facts import addresses
from roles.preflight.judge import judge, notes
from roles.preflight.network import address_of, ports
from tests.roles.fake import Ran, run
from tests.roles.slices import a_slice

NOW = 1_790_000_000
H100 = "0000:01:00.0 10de:2330 0x030200"
GOOD = {
    "os": "debian-12",
    "kernel": "6.1.0-40-amd64",
    "architecture": "x86_64",
    "systemd": "yes",
    "cgroup": "cgroup2fs",
    "pci": H100,
    "memory-kib": "206000000",
    "clock": str(NOW),
    "room": "/dev/vda1 900000 100000 800000 12% /",
    "docker-room": "/dev/vda1 900000 100000 800000 12% /",
    "used-mib": "1",
}


def kinds(mine: Slice | None = None, **changes: str) -> list[str]:
    """Kinds of all findings on a good machine with some answers changed; an empty answer counts as missing."""
    values = {name: value for name, value in {**GOOD, **changes}.items() if value}
    return [finding.kind for finding in judge(HostFacts(values=values), mine or a_slice("debian-12"), Defaults(), NOW)]


@pytest.mark.parametrize("inodes", ["", "/dev/vda1 6553600 6552000 1600 99% /", "/dev/vda1 0 0 0 - /"])
def test_the_declared_machine_has_no_findings(inodes: str) -> None:
    """A file system such as btrfs has no fixed number of inodes."""
    assert kinds(inodes=inodes) == []


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"os": "debian-13"}, "os"),
        ({"architecture": "aarch64"}, "architecture"),
        ({"systemd": ""}, "systemd"),
        ({"cgroup": "tmpfs"}, "cgroup"),
        ({"pci": "0000:01:00.0 10de:20b5 0x030200"}, "gpu"),
        ({"pci": ""}, "gpu-count"),
        ({"pci": f"{H100}\n{H100}"}, "gpu-count"),
        ({"pci": f"{H100}\n0000:80:00.0 10de:22a3 0x068000"}, "nvswitch"),
        ({"room": "/dev/vda1 90000 80000 10000 90% /", "docker-room": ""}, "disk"),
        ({"docker-room": "/dev/vdb1 90000 89940 60 100% /var/lib/docker"}, "disk-full"),
        ({"read-only": "/etc\n/usr/local"}, "read-only"),
        ({"inodes": "/dev/vda1 6553600 6553600 0 100% /"}, "inodes"),
        ({"clock": str(NOW - 61)}, "clock"),
        ({"clock": str(NOW + 61)}, "clock"),
        ({"ptrace-scope": "2"}, "ptrace-scope"),
        ({"ptrace-scope": "3"}, "ptrace-scope"),
        ({"owner-match": "absent"}, "owner-match"),
        ({"runfile": "/usr/bin/nvidia-uninstall"}, "runfile-driver"),
        ({"secure-boot": "on"}, "secure-boot"),
        ({"confidential": "/dev/tdx_guest"}, "confidential"),
        ({"gpu-users": "4711 python3"}, "gpu-in-use"),
        ({"listening": "0100007F:1F40"}, "port-taken"),
        ({"listening": "00000000:1F41"}, "port-taken"),
        ({"listening": "00000000000000000000000000000000:1F42"}, "port-taken"),
        ({"unreachable": "image nvcr.io:443"}, "unreachable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_one_difference_is_one_finding(changes: dict[str, str], kind: str) -> None:
    assert kinds(**changes) == [kind]


@pytest.mark.parametrize(
    "changes",
    [
        {"clock": str(NOW - 60)},
        {"ptrace-scope": "0"},
        {"ptrace-scope": "1"},
        {"room": "/dev/vda1 90000 80000 10000 90% /", "weights": "present", "image": "present"},
        {"listening": "00000000:1F40", "serving": "triton@main.service"},
        {"listening": "0200007F:1F40"},
        {"secure-boot": "on", "loaded": "580.178.04"},
        {"secure-boot": "on", "enrolled": "mok.pub is already enrolled"},
        {"unreachable": "docker-packages download.docker.com:443", "proxy": '"http://proxy:3128"'},
        {"nouveau": "loaded"},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_harmless_conditions_are_no_findings(changes: dict[str, str]) -> None:
    assert kinds(**changes) == []


def test_a_count_that_a_slow_disk_did_not_finish_is_not_a_lack_of_room() -> None:
    small = {"room": "/dev/vda1 90000 80000 10000 90% /", "docker-room": ""}
    assert [kinds(**small, **{"used-mib": used_mib}) for used_mib in ("unknown", "")] == [[], ["disk"]]


@pytest.mark.parametrize("image", [{"image": "present"}, {"pulling": "enginehouse-pull@1.service loaded activating"}])
@pytest.mark.parametrize(("free_mib", "expected"), [(30_000, []), (29_000, ["disk"])])
def test_room_for_an_image_that_came_already_is_not_asked_again(
    image: dict[str, str], free_mib: int, expected: list[str]
) -> None:
    mine = a_slice("debian-12", disk_needed_mib=150_001)
    room = {"room": f"/dev/vda1 990000 900000 {free_mib} 99% /", "docker-room": ""}
    assert kinds(mine, **room, **image) == expected


def test_all_findings_come_together() -> None:
    assert kinds(os="debian-13", pci="", runfile="/usr/bin/nvidia-uninstall") == ["os", "gpu-count", "runfile-driver"]


def test_less_memory_than_declared_is_found() -> None:
    assert kinds(a_slice("debian-12", machine={"memory_mib": 250_000})) == ["memory"]


def test_memory_that_the_firmware_reserves_is_no_finding() -> None:
    assert kinds(a_slice("debian-12", machine={"memory_mib": 208_000})) == []


def test_an_ubuntu_kernel_of_another_flavour_is_found() -> None:
    mine = a_slice("ubuntu-24.04", machine={"kernel_flavour": "aws"})
    assert kinds(mine, os="ubuntu-24.04", kernel="6.8.0-85-generic") == ["kernel"]


@pytest.mark.parametrize(
    ("flavour", "kernel", "expected"),
    [
        ("generic", "6.14.0-33-generic", ["kernel"]),
        ("generic-hwe-24.04", "6.14.0-33-generic", []),
        ("generic", "6.8.0-85-generic", []),
        ("aws", "6.14.0-1015-aws", []),
    ],
)
def test_an_enablement_kernel_has_to_be_declared(flavour: str, kernel: str, expected: list[str]) -> None:
    mine = a_slice("ubuntu-24.04", machine={"kernel_flavour": flavour})
    assert kinds(mine, os="ubuntu-24.04", kernel=kernel) == expected


def test_an_enablement_kernel_with_its_driver_is_no_finding() -> None:
    mine = a_slice("ubuntu-24.04")
    assert kinds(mine, os="ubuntu-24.04", kernel="6.14.0-33-generic", loaded="580.95.05") == []


def test_an_unmanaged_driver_below_the_floor_is_found() -> None:
    mine = a_slice("debian-12", driver={"manage": False})
    assert kinds(mine, loaded="535.183.06") == ["driver-floor"]


def test_a_proxy_that_is_not_known_can_be_allowed_for() -> None:
    seen = HostFacts(values={**GOOD, "unreachable": "image nvcr.io:443"})
    assert judge(seen, a_slice("debian-12"), Defaults(check_network=False), NOW) == []


def test_a_message_names_the_host_what_was_seen_and_what_to_do() -> None:
    seen = HostFacts(values={**GOOD, "pci": "0000:01:00.0 10de:20b5 0x030200"})
    (finding,) = judge(seen, a_slice("debian-12"), Defaults(), NOW)
    assert str(finding) == (
        "host: this machine has another GPU\n"
        "  found   10de:20b5\n"
        "  wanted  10de:2330 (h100-80, SM 90)\n"
        "  try     declare the GPU it has, or ask the provider for the right VM\n"
        "  state   preflight; no host was changed"
    )


def test_a_port_names_the_program_that_has_it() -> None:
    listeners = 'LISTEN 0 4096 0.0.0.0:8000 0.0.0.0:* users:(("python3",pid=7,fd=3))'
    seen = HostFacts(values={**GOOD, "listening": "00000000:1F40", "listeners": listeners})
    assert judge(seen, a_slice("debian-12"), Defaults(), NOW)[0].facts["found"] == "python3 listens there"


def test_a_port_that_a_container_of_ours_has_is_no_obstacle() -> None:
    """The container is another server's, which is stopped first, or has lost its unit."""
    seen = HostFacts(values={**GOOD, "listening": "00000000:1F40", "published": "8000 8001 8002 "})
    assert judge(seen, a_slice("debian-12"), Defaults(), NOW) == []


def test_nouveau_is_reported_before_the_first_change() -> None:
    seen = HostFacts(values={**GOOD, "nouveau": "loaded"})
    assert list(notes(seen, a_slice("debian-12"))) == [
        "nouveau drives the GPU; it will be kept away, and the host reboots once"
    ]


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("0100007F:1F40", "127.0.0.1", 8000),
        ("00000000000000000000000001000000:0016", "::1", 22),
        ("0000000000000000FFFF00000100007F:1F40", "::ffff:7f00:1", 8000),
        ("0000000000000000FFFF00000100007F:1F40", "::ffff:127.0.0.1", 8000),
    ],
)
def test_the_kernels_notation_of_addresses_is_read(text: str, address: str, port: int) -> None:
    """Addresses are compared as values: Python 3.13 and later write a mapped address differently."""
    assert address_of(text) == (ip_address(address), port)


@pytest.mark.parametrize("written", ["::ffff:7f00:1", "::FFFF:127.0.0.1", "0:0:0:0:0:ffff:7f00:1", "127.0.0.1"])
@pytest.mark.parametrize("listening", ["0100007F:1F40", "0000000000000000FFFF00000100007F:1F40"])
def test_a_taken_port_is_seen_however_the_inventory_writes_the_address(written: str, listening: str) -> None:
    mine = a_slice("debian-12")
    mine = replace(mine, servers=tuple(replace(server, address=written) for server in mine.servers))
    seen = HostFacts(values={**GOOD, "listening": listening})
    assert [problem.kind for problem in ports(seen, mine)] == ["port-taken"]


def test_canonical_drivers_need_no_address_of_nvidia() -> None:
    assert [place for _, place, _ in addresses(a_slice("ubuntu-24.04"))] == [
        "download.docker.com:443",
        "nvidia.github.io:443",
        "nvcr.io:443",
    ]


def lines(**changes: str) -> list[str]:
    """The fact's output on a good machine with some answers changed."""
    return [f"value\t{name}\t{line}" for name, text in {**GOOD, **changes}.items() for line in text.splitlines()]


def confirmed(
    login: str = "user=operator\nuid=1000\nsudo=yes", story: Callable[[], Any] | None = None, **changes: str
) -> Ran:
    """Preflight on a fake Debian 12 whose clock is right by default."""
    answers = {"id -un": login, "os-release": lines(**{"clock": str(int(time.time())), **changes})}
    return run(story or (lambda: preflight.confirm(a_slice("debian-12"))), answers=answers, data={"_sudo": True})


def test_a_confirmed_machine_reports_no_change() -> None:
    assert (confirmed().changed, confirmed().would_change) == ((), ())


def test_a_finding_fails_the_host() -> None:
    assert confirmed(pci="").failed_hosts == ("host",)


def test_a_finding_is_shown_by_dry() -> None:
    assert any("the number of GPUs differs" in line for line in confirmed(pci="").log)


def test_the_login_is_asked_without_sudo() -> None:
    login, *others = confirmed().shell["host"]
    assert not login.sudo and others and all(heard.sudo for heard in others)


def test_sudo_with_a_password_stops_before_anything_prompts() -> None:
    with pytest.raises(Refusal, match="cannot become root without a password"):
        confirmed(login="user=operator\nuid=1000")


def test_a_sudo_that_wants_a_terminal_is_named_with_the_line_that_lifts_it() -> None:
    """`Defaults requiretty`, as hardened images have it; no password would help."""
    refusal = "sudo: sorry, you must have a tty to run sudo"
    with pytest.raises(Refusal, match="cannot become root without a terminal") as refused:
        confirmed(login=f"user=operator\nuid=1000\nrefusal={refusal}")
    assert refused.value.facts["found"] == repr(refusal)
    assert "echo 'Defaults:operator !requiretty' > /etc/sudoers.d/91-operator" in str(refused.value)


def test_root_needs_no_sudo() -> None:
    answers = {"id -un": "user=root\nuid=0", "os-release": lines(clock=str(int(time.time())))}
    assert run(lambda: preflight.confirm(a_slice("debian-12")), answers=answers).failed_hosts == ()


def test_a_lost_host_does_not_stop_the_others() -> None:
    good = {"id -un": "uid=0", "os-release": lines(clock=str(int(time.time())))}
    bad = {"id -un": "uid=0", "os-release": lines(pci="", clock=str(int(time.time())))}
    ran = run(lambda: preflight.confirm(a_slice("debian-12")), hosts=("a", "b"), answers={"a": good, "b": bad})
    assert (ran.failed_hosts, ran.stopped) == (("b",), "")
