"""Lines of usage are on the disk soon, whatever the disk does, and are counted in any case."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from tests.gateway.test_usage import add, counting, total


def test_lines_are_synced_before_they_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut loses no line of a finished sync, and no line waits for the next count."""
    sync, is_whole = os.fdatasync, threading.Event()

    def recorded(handle: int) -> None:
        size = os.fstat(handle).st_size
        sync(handle)
        if size == sum(path.stat().st_size for path in tmp_path.glob("*.log")):
            is_whole.set()

    monkeypatch.setattr(os, "fdatasync", recorded)
    usage = counting(tmp_path)
    for _ in range(20):
        is_whole.clear()
        add(usage)
    assert is_whole.wait(30)
    usage.close()


def test_a_disk_without_sync_is_reported_once_with_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tries = threading.Semaphore(0)

    def refused(handle: int) -> None:
        tries.release()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", refused)
    usage = counting(tmp_path)
    for _ in range(3):
        add(usage)
        assert tries.acquire(timeout=30)
    usage.close()
    assert capsys.readouterr().err.count("the log of usage could not be synced; it is tried again: [Errno 5]") == 1
    assert total(tmp_path) == 3
