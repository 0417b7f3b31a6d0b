"""The outer kernel's settings are raised for rehearsals and restored after the last one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rehearsal import kernel_settings


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A setting of 128 whose wanted value is 2048."""
    path = tmp_path / "max_user_instances"
    path.write_text("128\n")
    monkeypatch.setattr(kernel_settings, "WANTED", {path: 2048})
    monkeypatch.setattr(kernel_settings, "FOUND", tmp_path / "found.json")
    return path


def test_a_low_setting_is_raised(setting: Path) -> None:
    kernel_settings.raise_all()
    assert setting.read_text() == "2048\n"


def test_a_higher_setting_is_left(setting: Path) -> None:
    setting.write_text("8192\n")
    kernel_settings.raise_all()
    assert setting.read_text() == "8192\n"


def test_kernel_settings_return_to_their_first_values_after_the_last_rehearsal(setting: Path) -> None:
    kernel_settings.raise_all()
    kernel_settings.raise_all()
    kernel_settings.put_back()
    assert setting.read_text() == "128\n"
