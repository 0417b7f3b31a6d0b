"""A test that fails with a key at hand, as `--showlocals` shows it; run by `test_naive.py`, collected nowhere else."""

from __future__ import annotations

import os


def test_a_login() -> None:
    key = os.environ["NGC_API_KEY"]
    assert key == ""
