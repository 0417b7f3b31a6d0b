"""Mistyped words of the command line: numbers with a unit, a hub's URL, a count before a card."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.__main__ import main
from deploy.io.fit_models import _bare


def typed(*words: str) -> str:
    """Everything that the command printed."""
    return CliRunner().invoke(main, list(words)).output


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("size", "gpt-oss-20b", "--users", "10k", "--prompt", "100", "--answer", "100"), "Write 10000."),
        (("size", "gpt-oss-20b", "--users", "1,000", "--prompt", "100", "--answer", "100"), "Write 1000."),
        (("fit", "h100", "qwen3-8b", "--max-seq-len", "32k"), "Write 32768."),
        (("fit", "h100", "qwen3-8b", "--tp", "two"), "'two' is not a whole number."),
    ],
)
def test_a_number_with_a_unit_is_refused_with_the_number(words: tuple[str, ...], meant: str) -> None:
    assert meant in typed(*words)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("https://huggingface.co/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("https://hf-mirror.com/Qwen/Qwen3-8B/", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B/", "Qwen/Qwen3-8B"),
        ("./weights/mine/", "./weights/mine/"),
        ("qwen3-8b", "qwen3-8b"),
    ],
)
def test_a_hub_s_address_is_read_as_the_name_in_it(word: str, name: str) -> None:
    assert _bare(word) == name


@pytest.mark.parametrize("card", ["2xh100", "2 h100", "h100:2", "H100 x 2", "h100*2"])
def test_a_card_with_its_count_is_refused_with_the_split(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, card: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "enginehouse fit h100-80 qwen3-8b --tp 2" in typed("fit", card, "qwen3-8b")
    assert "enginehouse fit h100-80 qwen3-8b --tp 2" in typed("fit", "qwen3-8b", card)


def test_a_card_behind_a_model_is_refused_with_the_right_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert "enginehouse fit h200-141 qwen3-8b" in typed("fit", "qwen3-8b", "h200")
