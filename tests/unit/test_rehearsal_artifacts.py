"""Files of the rehearsal's services that can be judged without a machine: cache, packages, hub, image."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rehearsal.artifacts import digest_of, made_once
from rehearsal.debs import PACKAGES, filled

CONTROLS = sorted(PACKAGES.rglob("control"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENGINEHOUSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/rehearsal"


def test_the_same_sources_have_the_same_digest_in_another_folder(tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place / "tree/sub").mkdir(parents=True)
        (tmp_path / place / "tree/sub/file").write_text("text")
    assert digest_of(tmp_path / "one/tree") == digest_of(tmp_path / "two/tree")


def test_a_file_that_becomes_executable_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("text")
    before = digest_of(tmp_path / "script")
    (tmp_path / "script").chmod(0o755)
    assert digest_of(tmp_path / "script") != before


def test_an_artifact_is_made_once(cache: Path) -> None:
    calls: list[Path] = []
    first = made_once("thing", "k1", calls.append)
    assert (made_once("thing", "k1", calls.append), len(calls)) == (first, 1)


def test_a_maker_that_breaks_leaves_nothing_behind(cache: Path) -> None:
    def breaks(into: Path) -> None:
        (into / "half").write_text("half")
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        made_once("thing", "k1", breaks)
    assert [path.name for path in cache.iterdir()] == ["thing.lock"]


def test_an_unused_artifact_is_removed_when_a_newer_one_is_made(cache: Path) -> None:
    old, recent = (made_once("thing", digit * 16, lambda into: None) for digit in "ab")
    os.utime(old, (0, 0))
    made_once("thing", "c" * 16, lambda into: None)
    assert (old.exists(), recent.exists()) == (False, True)


def test_every_hole_of_a_package_text_is_filled() -> None:
    assert (
        filled("libcuda1 (= @VERSION@) of @UPSTREAM@", {"VERSION": "1-1", "UPSTREAM": "1"}) == "libcuda1 (= 1-1) of 1"
    )


@pytest.mark.parametrize("control", CONTROLS, ids=lambda path: path.parent.name)
def test_every_package_says_that_it_is_a_rehearsal(control: Path) -> None:
    description = re.search(r"^Description: (.*)$", control.read_text(), re.MULTILINE)
    assert description and ("rehearsal stand-in" in description[1] or "repackaged for rehearsals" in description[1])


def test_the_driver_demands_its_library_in_the_very_same_version() -> None:
    control = (PACKAGES / "nvidia/nvidia-driver-cuda/control").read_text()
    assert "libcuda1 (= @VERSION@)" in control


def test_the_toolkit_demands_its_parts_in_the_very_same_version() -> None:
    control = (PACKAGES / "toolkit/nvidia-container-toolkit/control").read_text()
    assert "nvidia-container-toolkit-base (= @VERSION@), libnvidia-container-tools (= @VERSION@)" in control


def test_persistenced_is_shipped_without_persistence_mode() -> None:
    unit = PACKAGES / "nvidia/nvidia-persistenced/files/usr/lib/systemd/system/nvidia-persistenced.service"
    assert "--user nvidia-persistenced --no-persistence-mode --verbose" in unit.read_text()
