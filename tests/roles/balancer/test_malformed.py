"""Malformed requests to a real gateway behind the real HAProxy: they are refused, and none hides another request."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from roles._shipping.texts import HERE
from tests.roles.balancer.malformed import ANSWERED, CASES, EITHER, REFUSED, Case

pytestmark = pytest.mark.skipif(
    not shutil.which("haproxy"), reason="no haproxy here: python -m rehearsal requirements --install --tests"
)


@pytest.fixture(scope="module")
def ends() -> dict[str, Any]:
    """The outcome of each case."""
    argv = [sys.executable, "-m", "tests.roles.balancer.malformed_stories"]
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{HERE / 'files'}"}
    done = subprocess.run(argv, cwd=HERE, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_malformed_request_is_refused_without_effect_on_other_requests(case: Case, ends: dict[str, Any]) -> None:
    """The gateway sees at most as many requests as HTTP's rules allow, and still answers another tenant."""
    end = ends[case.name]
    assert end["others"] == 200
    assert len(end["statuses"]) <= case.requests
    if case.wanted == ANSWERED:
        assert end["statuses"] == [200] * case.requests
        assert end["ended"] == " ".join(["status", *["200"] * case.requests])
    if case.wanted == REFUSED:
        assert 200 not in end["statuses"]
        assert end["ended"] in ("reset", "closed") or end["ended"][:8] in ("status 4", "status 5")


def test_each_case_has_a_name_of_its_own() -> None:
    """Each verdict has cases, so that a table without refusals fails."""
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert {case.wanted for case in CASES} == {ANSWERED, REFUSED, EITHER}
