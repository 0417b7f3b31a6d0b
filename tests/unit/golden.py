"""Compares text with a file of tests/golden.

`GOLDEN=write pytest tests/unit` rewrites the files, and the diff is the review.
"""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY = Path(__file__).parent.parent / "golden"


def same_as_golden(name: str, text: str) -> None:
    """Fails the test with the difference if `text` is not the content of tests/golden/`name`."""
    file = DIRECTORY / name
    if os.environ.get("GOLDEN") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")
