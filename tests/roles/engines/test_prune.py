"""Which engines a host lets go: never what serves or served before, never what is planned."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.roles.loading import program

prune = program("engines/prune_engines.py")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/var/lib/enginehouse with six engines of one model, 0… the oldest."""
    monkeypatch.setattr(prune, "ROOT", tmp_path)
    for age in range(6):
        place = tmp_path / "engines" / "llama" / (f"{age}" * 16)
        place.mkdir(parents=True)
        os.utime(place, (1000 + age, 1000 + age))
    return tmp_path


def prune_to(monkeypatch: pytest.MonkeyPatch, root: Path, keep: int, *planned: int) -> str:
    """The engines that are left, by age."""
    paths = [str(root / "engines" / "llama" / (f"{age}" * 16)) for age in planned]
    monkeypatch.setattr("sys.argv", ["prune_engines.py", str(keep), *paths])
    assert prune.main() == 0
    return "".join(sorted(path.name[0] for path in (root / "engines" / "llama").iterdir()))


def release(root: Path, link: str, age: int) -> None:
    """A release of a server that loads the engine of that age."""
    place = root / "servers" / "main" / link
    place.mkdir(parents=True)
    engine = {"path": str(root / "engines" / "llama" / (f"{age}" * 16)), "fingerprint": f"{age}" * 16}
    (place / "server.json").write_text(json.dumps({"engines": [engine]}))


def test_the_newest_ones_nobody_needs_are_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prune_to(monkeypatch, root, 2, 5) == "345"


def test_what_serves_and_what_served_before_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release(root, "current", 1)
    release(root, "previous", 0)
    assert prune_to(monkeypatch, root, 0, 5) == "015"


def test_leftovers_of_an_engine_that_is_there_again_go(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("5" * 16 + ".refused", "." + "5" * 16 + ".incoming", "7" * 16 + ".failed"):
        (root / "engines" / "llama" / name).mkdir()
    assert prune_to(monkeypatch, root, 9, 5) == "0123457"


def test_a_release_without_engines_protects_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = root / "servers" / "main" / "current"
    place.mkdir(parents=True)
    (place / "server.json").write_text("{}")
    assert prune_to(monkeypatch, root, 1, 5) == "45"
