"""A notice of each cloud drains a host of a pool in time, under load and behind this machine's real HAProxy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from roles._shipping.texts import HERE

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-16")]

KINDS = {"aws": "spot terminate", "gcp": "preemption", "azure": "Preempt"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_notice_drains_a_host_of_a_pool_in_time(kind: str) -> None:
    """Requests that end within the notice succeed; the endless request is counted, and its server stopped."""
    if not shutil.which("haproxy"):
        pytest.skip("no haproxy here: python -m rehearsal requirements --install --tests")
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{HERE / 'files'}"}
    words = [sys.executable, "-m", "tests.roles.traffic.notice_story", kind]
    ended = subprocess.run(words, cwd=HERE, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    outcome: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    assert outcome == {
        "lost": 0,
        "load": True,
        "new at the drained": 0,
        "long answer": [True, "h1"],
        "history": [["announced", KINDS[kind]], ["cut", KINDS[kind]]],
        "cut": 1,
        "systemctl": ["stop --no-block triton@main.service"],
    }
