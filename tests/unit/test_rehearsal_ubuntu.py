"""Releases of rehearsal machines, and the stand-in of an Ubuntu machine's kernel."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from deploy.catalog import SYSTEMS
from rehearsal import apt_sources, forks, machines, ubuntu


def test_a_machines_name_chooses_its_release() -> None:
    names = {"d12a": "12", "d13k": "13", "u22a": "22.04", "u24a": "24.04", "u26a": "26.04", "edge": "13"}
    assert {name: machines.release_of(name) for name in names} == names


def test_a_snapshot_of_an_earlier_version_is_one_of_debian(tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text('{"debian": "12", "lowers": []}')
    assert forks.read_record(tmp_path)["os"] == "debian-12"


def test_a_release_of_ubuntu_has_kernels_of_its_series_and_a_driver_of_its_own() -> None:
    assert [*ubuntu.RELEASES] == [release for release in apt_sources.CODENAMES if "." in release]
    for release, row in ubuntu.RELEASES.items():
        system = SYSTEMS[f"ubuntu-{release}"]
        series = re.escape(system.kernel) + r"\.0-\d+-generic"
        assert [bool(re.fullmatch(series, kernel)) for kernel in (row.kernel, row.newer_kernel)] == [True, True]
        written = ubuntu.files(release)
        assert f"canonical/{system.codename}\n" in written["etc/apt/sources.list.d/restricted.sources"]
        assert f"boot/vmlinuz-{row.kernel}" in written


def test_the_kernel_of_an_ubuntu_machine_reads_as_the_one_that_its_boot_chose(tmp_path: Path) -> None:
    """The test runs the stand-in of uname over the outer machine's own answer."""
    chosen = tmp_path / "kernel"
    chosen.write_text("6.8.0-151-generic\n")
    program = ubuntu.UNAME.replace("/usr/bin/uname.kernel", "uname").replace("/run/rehearsal/kernel", str(chosen))
    shown = [
        subprocess.run(["bash", "-c", program, "uname", *words], capture_output=True, text=True, check=True).stdout
        for words in (["-r"], ["-s"], ["-a"])
    ]
    assert shown[:2] == ["6.8.0-151-generic\n", "Linux\n"]
    assert " 6.8.0-151-generic " in shown[2] and os.uname().release not in shown[2]
