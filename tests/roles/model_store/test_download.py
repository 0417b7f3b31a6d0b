"""Checks of the control machine's own download before it begins."""

from __future__ import annotations

import os
from pathlib import Path

from roles.model_store.download import forget_killed

FOLDER = ".cache/huggingface/download/onnx"


def test_partial_files_of_killed_downloads_are_removed_and_live_ones_kept(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    for name in ("killed.1.incomplete", "living.2.incomplete", "config.json.metadata"):
        (tmp_path / FOLDER / name).touch()
    os.utime(tmp_path / FOLDER / "killed.1.incomplete", (1_000_000_000, 1_000_000_000))
    forget_killed(tmp_path)
    assert sorted(os.listdir(tmp_path / FOLDER)) == ["config.json.metadata", "living.2.incomplete"]


def test_a_first_download_finds_nothing_to_forget(tmp_path: Path) -> None:
    forget_killed(tmp_path / "not there")
