"""The program that verifies and publishes the files of rsync."""

from __future__ import annotations

import getpass
import hashlib
import mmap
import os
import subprocess
from pathlib import Path

import pytest

from host import publish
from roles._shipping.rsync import RESUMING


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    """A directory after rsync, with a manifest and a leftover."""
    made = tmp_path / ".m.partial"
    (made / ".rsync-partial").mkdir(parents=True)
    (made / ".rsync-partial/left").write_bytes(b"half")
    (made / "model.safetensors").write_bytes(b"tensors")
    (made / "manifest.sha256").write_text(f"{hashlib.sha256(b'tensors').hexdigest()}  model.safetensors\n")
    return made


def call(staging: Path) -> int:
    """The program's exit status."""
    return publish.main([str(staging), str(staging.with_name("m"))])


def test_matching_files_are_published_without_leftovers(staging: Path) -> None:
    assert call(staging) == 0
    assert sorted(os.listdir(staging.with_name("m"))) == ["manifest.sha256", "model.safetensors"]


def test_a_file_that_does_not_match_is_named_and_sent_again(staging: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (staging / "model.safetensors").write_bytes(b"tensorz")
    assert (call(staging), staging.with_name("m").exists()) == (1, False)
    assert not (staging / "model.safetensors").exists()
    assert capsys.readouterr().err == "1 of 1 files do not match manifest.sha256: model.safetensors\n"


def test_files_that_a_power_cut_damaged_are_removed_before_rsync_skips_them(
    staging: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a power cut a file has the right size and zeros for the unwritten part, or does not exist yet."""
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
    """With the real rsync, which skips a file of the right size and time."""
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


def test_a_file_that_a_process_can_still_write_is_not_published(
    staging: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file's bytes could change after the check. The receiving user may have passed the open file to another
    process."""
    with (staging / "model.safetensors").open("r+b"):
        assert call(staging) == 1
    assert not staging.with_name("m").exists()
    assert "model.safetensors is removed: it is not a plain file of this directory only" in capsys.readouterr().err


def test_a_file_that_a_process_has_mapped_for_writing_is_not_published(staging: Path) -> None:
    with (staging / "model.safetensors").open("r+b") as content:
        mapped = mmap.mmap(content.fileno(), 0)
    assert call(staging) == 1
    mapped.close()


def test_a_file_that_somebody_reads_is_published(staging: Path) -> None:
    with (staging / "model.safetensors").open("rb"):
        assert call(staging) == 0


def test_links_pipes_and_other_names_of_files_elsewhere_are_removed_and_left_as_they_were(
    staging: Path, tmp_path: Path
) -> None:
    """Root would give such a file away, or publish content that only root may read."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"tensors")
    secret.chmod(0o600)
    before = secret.stat()
    (staging / "linked").symlink_to(secret)
    (staging / "folder").symlink_to(tmp_path, target_is_directory=True)
    os.link(secret, staging / "same")
    os.mkfifo(staging / "pipe")
    publish.take(staging)
    assert sorted(os.listdir(staging)) == [".rsync-partial", "manifest.sha256", "model.safetensors"]
    assert (secret.stat().st_mode, secret.stat().st_uid) == (before.st_mode, before.st_uid)


def test_directories_without_end_are_removed(staging: Path) -> None:
    """The directories are deeper than a program can recurse, and longer than a path may be."""
    here = os.open(staging, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    publish.take(staging)
    assert len([path for path in staging.rglob("*") if path.is_dir()]) == publish.MOST_FOLDERS


def test_a_manifest_that_names_a_file_elsewhere_is_refused(staging: Path) -> None:
    for name in ("../m.json", "/etc/shadow", "a/../../b", "./m.json", "a//m.json", "m.json/", "a/" * 20 + "m"):
        (staging / "manifest.sha256").write_text(f"{'0' * 64}  {name}\n")
        with pytest.raises(ValueError, match="which is not a file in"):
            publish.differing(staging)


def test_only_its_user_may_read_a_file_that_is_handed_over(staging: Path) -> None:
    """Weights are private to the user, even if an earlier version wrote them as root."""
    (staging / "model.safetensors").chmod(0o4777)
    publish.take(staging, getpass.getuser())
    modes = [oct(path.stat().st_mode & 0o7777) for path in (staging, staging / "model.safetensors")]
    assert modes == ["0o700", "0o600"]
