"""A test that fails with a key in its locals, for `--showlocals`; only `test_naive.py` runs it."""

from __future__ import annotations

import os


def test_a_login() -> None:
    key = os.environ["NGC_API_KEY"]
    assert key == ""
