"""Wheels that repair an image: pinned, fetched by pip, unpacked in front of the image's own packages."""

from __future__ import annotations

import io
import subprocess
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from deploy.catalog import RELEASES
from deploy.refusals.errors import Refusal
from roles._shipping.repairs import REPAIRS, Wheel, unpacked, wheels


def a_wheel(folder: Path, content: bytes = b"new = True\n") -> Wheel:
    """A wheel of one module, already in the cache."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("thing/__init__.py", content)
    wheel = Wheel("thing", "1.0", sha256(target.getvalue()).hexdigest())
    (folder / wheel.file).write_bytes(target.getvalue())
    return wheel


def test_a_wheel_lies_under_python_in_the_release(tmp_path: Path) -> None:
    assert unpacked(a_wheel(tmp_path), tmp_path) == {"python/thing/__init__.py": b"new = True\n"}


def test_a_wheel_that_is_not_the_pinned_one_is_refused_and_removed(tmp_path: Path) -> None:
    wheel = a_wheel(tmp_path)
    (tmp_path / wheel.file).write_bytes(b"something else")
    with pytest.raises(Refusal, match="could not be fetched"):
        unpacked(wheel, tmp_path)
    assert not (tmp_path / wheel.file).exists()


def test_pip_is_asked_for_exactly_the_pinned_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = a_wheel(tmp_path)
    content = (tmp_path / wheel.file).read_bytes()
    (tmp_path / wheel.file).unlink()

    def pip(argv: list[str], **_: object) -> None:
        assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(argv)
        (tmp_path / wheel.file).write_bytes(content)

    monkeypatch.setattr(subprocess, "run", pip)
    unpacked(wheel, tmp_path)
    assert (tmp_path / "thing.txt").read_text() == f"thing==1.0 --hash=sha256:{wheel.digest}\n"


def test_every_defect_of_the_catalog_has_a_repair() -> None:
    defects = {defect.name for release in RELEASES.values() for defect in release.defects}
    assert defects - set(REPAIRS) == set()


def test_without_a_defect_nothing_is_added() -> None:
    assert wheels(()) == ()
