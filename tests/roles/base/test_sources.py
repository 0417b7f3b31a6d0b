"""Sources of apt under a mirror of the distribution: the whole text for each OS, and their restoration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.slices.host import Slice
from deploy.spec import AptMirror, Mirrors
from roles._pyinfra.facts import HostFacts
from roles.base import operations
from roles.base.defaults import SOURCES
from tests.roles.slices import a_slice
from tests.unit.golden import same_as_golden

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nkey\n"


def mirrored(os: str, folder: Path, bundle: str = "") -> Slice:
    """A host whose distribution comes from a mirror."""
    (folder / "key.asc").write_text(KEY)
    mirror = AptMirror(url="http://127.0.0.1:5480/apt/os/system/", key_file=str(folder / "key.asc"))
    return replace(a_slice(os), mirrors=Mirrors(system=mirror), bundle=bundle)


@pytest.mark.parametrize("os", ["debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04"])
def test_the_source_list_is_reviewed_for_each_system(os: str, tmp_path: Path) -> None:
    """Ubuntu's list has not been used on a machine."""
    same_as_golden(f"base/system-{os}.list", operations.system_list(mirrored(os, tmp_path)))


def test_settings_of_a_bundle_take_its_lists_as_they_are(tmp_path: Path) -> None:
    """A mirror is asked as apt always asks; a bundle has no by-hash names, no translations, and its own date."""
    same_as_golden("base/sources-of-a-bundle.conf", operations.settings_of_apt(mirrored("debian-12", tmp_path, "b")))
    same_as_golden("base/sources-of-a-mirror.conf", operations.settings_of_apt(mirrored("debian-12", tmp_path)))


def test_lists_are_fetched_when_a_file_changed_and_not_again(tmp_path: Path) -> None:
    mine = mirrored("debian-12", tmp_path)
    commands = [str(command) for command in operations.sources(HostFacts(), mine)]
    assert commands[0].startswith("install -d -m 0755 /etc/enginehouse/apt/parts")
    assert commands[-1] == "/usr/local/lib/enginehouse/patient-apt update"


def test_removing_a_mirror_restores_the_hosts_own_sources() -> None:
    left = HostFacts(files={SOURCES: "0" * 64})
    assert list(operations.own_sources(left, Mirrors())) == [
        f"rm -f {SOURCES} && /usr/local/lib/enginehouse/patient-apt update"
    ]
    assert list(operations.own_sources(HostFacts(), Mirrors())) == []
    assert list(operations.own_sources(HostFacts(), None)) == []
