"""The program that checks what rsync brought and publishes it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from host import publish
from roles._shipping.rsync import RESUMING


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory as rsync leaves it, with a manifest and a leftover."""
    monkeypatch.setattr(os, "chown", lambda *_: None)
    made = tmp_path / ".m.partial"
    (made / ".rsync-partial").mkdir(parents=True)
    (made / ".rsync-partial/left").write_bytes(b"half")
    (made / "model.safetensors").write_bytes(b"tensors")
    (made / "manifest.sha256").write_text(f"{hashlib.sha256(b'tensors').hexdigest()}  model.safetensors\n")
    return made


def call(staging: Path) -> int:
    """The program's exit status."""
    return publish.main([str(staging), str(staging.with_name("m"))])


def test_what_matches_is_published_without_leftovers(staging: Path) -> None:
    assert call(staging) == 0
    assert sorted(os.listdir(staging.with_name("m"))) == ["manifest.sha256", "model.safetensors"]


def test_what_does_not_match_is_named_and_sent_again(staging: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (staging / "model.safetensors").write_bytes(b"tensorz")
    assert (call(staging), staging.with_name("m").exists()) == (1, False)
    assert not (staging / "model.safetensors").exists()
    assert capsys.readouterr().err == "1 of 1 files do not match manifest.sha256: model.safetensors\n"


def test_what_a_power_cut_left_is_gone_before_rsync_takes_it_for_sent(
    staging: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The right size, and zeros where nothing was written yet; another file had not even begun."""
    (staging / "manifest.sha256").write_text(
        "".join(f"{hashlib.sha256(b'tensors').hexdigest()}  {name}\n" for name in ("a", "b", "c"))
    )
    (staging / "a").write_bytes(bytes(7))
    (staging / "b").write_bytes(b"tensors")
    assert publish.main(["--before", str(staging)]) == 0
    assert sorted(os.listdir(staging)) == [".rsync-partial", "b", "manifest.sha256", "model.safetensors"]
    assert capsys.readouterr() == ("", "")
    assert not staging.with_name("m").exists()


def test_the_run_after_a_power_cut_publishes(staging: Path, tmp_path: Path) -> None:
    """With the real rsync, which takes a file of the right size and time for sent."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "model.safetensors").write_bytes(b"tensors")
    before = (source / "model.safetensors").stat()
    (staging / "model.safetensors").write_bytes(bytes(7))
    os.utime(staging / "model.safetensors", ns=(before.st_atime_ns, before.st_mtime_ns))
    publish.main(["--before", str(staging)])
    subprocess.run([*RESUMING, f"{source}/", f"{staging}/"], check=True)
    assert call(staging) == 0
    assert (staging.with_name("m") / "model.safetensors").read_bytes() == b"tensors"


def test_a_missing_file_is_named(staging: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (staging / "model.safetensors").unlink()
    assert call(staging) == 1
    assert "model.safetensors" in capsys.readouterr().err


def test_every_file_and_directory_is_on_the_disk_before_the_name_and_the_name_before_the_end(
    staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name))
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda path, new: done.append("renamed") or rename(path, new))
    call(staging)
    assert sorted(done[:3]) == [".m.partial", "manifest.sha256", "model.safetensors"]
    assert done[3:] == ["renamed", staging.parent.name]


def test_a_half_published_directory_is_replaced(staging: Path) -> None:
    half = staging.with_name("m")
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"ten")
    assert call(staging) == 0
    assert (half / "model.safetensors").read_bytes() == b"tensors"
