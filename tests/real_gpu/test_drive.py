"""The one program that the machine with a GPU runs: it takes parts by their hash and unpacks complete archives."""

from __future__ import annotations

import io
import lzma
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rehearsal.places import REPOSITORY
from rehearsal.real_gpu import parts
from rehearsal.real_gpu.parts import Part

DRIVE = REPOSITORY / "rehearsal/real_gpu/drive"
Drive = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    """Runs the program in a separate checkout, as root without other rights."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/id").write_text("#!/bin/sh\necho ${UID_TOLD:-0}\n")
    (tmp_path / "bin/id").chmod(0o755)
    (tmp_path / "build/real-gpu").mkdir(parents=True)
    place = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PLACE": str(tmp_path / "place"), "HOME": str(tmp_path)}

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(DRIVE), *words]
        return subprocess.run(command, cwd=tmp_path, env=place | variables, text=True, capture_output=True)

    return run


@pytest.fixture
def made(tmp_path: Path, drive: Drive, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Part]]:
    """Returns parts of two archives, each of one file, with their table."""
    monkeypatch.setattr(parts, "PART_BYTES", 2000)
    into = tmp_path / "build/real-gpu"
    parts_of = {}
    for name in ("control.tar.xz", "packages.tar"):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            about = tarfile.TarInfo("content")
            about.size = len(name)
            tar.addfile(about, io.BytesIO(name.encode()))
        content = lzma.compress(packed.getvalue()) if name.endswith(".xz") else packed.getvalue()
        (tmp_path / name).write_bytes(content)
        parts_of[name] = parts.split(name, tmp_path / name, into)
    (into / "parts.tsv").write_text("".join(part.row() for rows in parts_of.values() for part in rows))
    return parts_of


def paths(made: dict[str, list[Part]], *names: str) -> list[str]:
    """Returns the paths of these archives' parts."""
    return [f"build/real-gpu/{part.file}" for name in names for part in made[name]]


def test_bash_reads_it() -> None:
    subprocess.run(["bash", "-n", str(DRIVE)], check=True)


def test_without_a_verb_the_verbs_are_listed(drive: Drive) -> None:
    """The list has every verb and the three variables."""
    done = drive()
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("drive receive PART…", "drive run STEP…", "drive enter COMMAND…", "drive down"):
        assert f"bash rehearsal/real_gpu/{word}" in done.stdout
    assert all(name in done.stdout for name in ("PLACE", "REPORT", "ENGINEHOUSE_TORCH"))
    assert "#" not in done.stdout and "pipefail" not in done.stdout


def test_only_root_may(drive: Drive, made: dict[str, list[Part]], tmp_path: Path) -> None:
    done = drive("receive", *paths(made, "packages.tar"), UID_TOLD="1000")
    assert (done.returncode, (tmp_path / "place").exists()) == (1, False)
    assert done.stderr == "this wants root: it mounts, and starts a machine\n  state   nothing was changed\n"


def test_an_archive_is_unpacked_once_its_last_part_is_here(
    drive: Drive, made: dict[str, list[Part]], tmp_path: Path
) -> None:
    """Parts come in any order; the parts missing from the second archive are named."""
    *first, last = reversed(paths(made, "packages.tar"))
    assert len(first) > 1
    for path in first:
        assert drive("receive", path).returncode == 0
    assert not (tmp_path / "place/packages").exists()
    done = drive("receive", last)
    assert (tmp_path / "place/packages/content").read_text() == "packages.tar"
    assert f"control.tar.xz still lacks {' '.join(part.file for part in made['control.tar.xz'])}" in done.stdout


def test_a_compressed_archive_is_unpacked_too(drive: Drive, made: dict[str, list[Part]], tmp_path: Path) -> None:
    assert drive("receive", *paths(made, *made)).returncode == 0
    assert (tmp_path / "place/control/content").read_text() == "control.tar.xz"


def test_an_archive_that_was_unpacked_lacks_nothing_and_is_left_alone(
    drive: Drive, made: dict[str, list[Part]], tmp_path: Path
) -> None:
    """The archive's parts may be deleted, because they take as much room as the unpacked archive."""
    drive("receive", *paths(made, "packages.tar"))
    for part in made["packages.tar"]:
        (tmp_path / "place/parts" / part.file).unlink()
    (tmp_path / "place/packages/content").write_text("changed since")
    done = drive("receive", *paths(made, "packages.tar")[:1])
    assert (done.returncode, (tmp_path / "place/packages/content").read_text()) == (0, "changed since")
    assert "packages.tar still lacks" not in done.stdout


def test_a_part_with_another_hash_is_refused_and_removed(
    drive: Drive, made: dict[str, list[Part]], tmp_path: Path
) -> None:
    good, path, *_ = paths(made, "packages.tar")
    (tmp_path / path).write_bytes((tmp_path / path).read_bytes()[:-1] + b"!")
    done = drive("receive", good, path)
    assert done.returncode == 1
    assert done.stderr == (
        f"{path} is not what build/real-gpu/parts.tsv says: its hash is another\n"
        "  state   parts named before it are kept, and it is not\n"
    )
    assert [kept.name for kept in (tmp_path / "place/parts").iterdir()] == [Path(good).name]


def test_a_file_that_is_no_part_is_refused(drive: Drive, made: dict[str, list[Part]], tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other")
    done = drive("receive", "other")
    assert (done.returncode, list((tmp_path / "place/parts").iterdir())) == (1, [])
    assert "other is not in build/real-gpu/parts.tsv" in done.stderr


def test_nothing_is_run_until_everything_is_unpacked(drive: Drive, made: dict[str, list[Part]], tmp_path: Path) -> None:
    """The message names the missing parts."""
    drive("receive", *paths(made, "packages.tar"))
    done = drive("run", "deploy")
    assert (done.returncode, (tmp_path / "place/control").exists()) == (1, False)
    assert f"control.tar.xz is not unpacked; still wanted: {made['control.tar.xz'][0].file}" in done.stderr


def test_down_ends_well_where_nothing_runs(drive: Drive) -> None:
    assert drive("down").returncode == 0
