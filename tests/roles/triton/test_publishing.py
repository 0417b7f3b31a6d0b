"""The command that publishes a release, run by a shell in a folder of the test."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest

from roles._shipping.places import RELEASES
from roles._shipping.tar import tarred
from roles.triton.publishing import publishing

FILES = {"server.json": b"{}", "models/chat/config.pbtxt": b"name"}


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """The folder of published releases, with a stand-in of chown."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/chown").symlink_to("/bin/true")
    (tmp_path / "releases").mkdir()
    return tmp_path / "releases"


def publish(releases: Path, files: dict[str, bytes] = FILES) -> int:
    """The command's exit status."""
    command = publishing("r1").replace(RELEASES, str(releases))
    sent = base64.encodebytes(tarred(files))
    environment = os.environ | {"PATH": f"{releases.parent}/bin:{os.environ['PATH']}"}
    return subprocess.run(["sh", "-c", command], input=sent, env=environment, check=False).returncode


def has(releases: Path) -> list[str]:
    """All files in the directory."""
    return sorted(str(path.relative_to(releases)) for path in releases.rglob("*") if path.is_file())


def test_a_release_is_published_whole_and_nothing_else_is_left(releases: Path) -> None:
    assert (publish(releases), has(releases)) == (0, ["r1/models/chat/config.pbtxt", "r1/server.json"])


def test_a_partial_release_of_a_cut_removal_makes_room(releases: Path) -> None:
    """In earlier versions a partial release stayed for ever: it was not replaced, and no swap accepted it."""
    (releases / "r1/models/chat").mkdir(parents=True)
    (releases / "r1/models/chat/left").touch()
    assert (publish(releases), has(releases)) == (0, ["r1/models/chat/config.pbtxt", "r1/server.json"])


def test_a_release_that_another_run_has_published_meanwhile_is_left_alone(releases: Path) -> None:
    (releases / "r1").mkdir()
    (releases / "r1/server.json").write_text("theirs")
    assert (publish(releases), has(releases)) == (0, ["r1/server.json"])
    assert (releases / "r1/server.json").read_text() == "theirs"


def test_a_partial_release_that_cannot_be_removed_is_not_reported_as_published(releases: Path) -> None:
    (releases / "r1").mkdir()
    remover = releases.parent / "bin/rm"
    remover.write_text('#!/bin/sh\ncase "$*" in */r1) exit 1;; esac\nexec /bin/rm "$@"\n')
    remover.chmod(0o755)
    assert publish(releases) != 0
