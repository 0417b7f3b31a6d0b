"""Options that every suite shares. pytest collects `tests/smoke` only with a named inventory.

Modules of one rehearsal number (`xdist_group`) stay in one lane, in order. xdist 3.8 silently writes a test's group to
a place that pytest 9.2 no longer reads: without the code here, each test would go to any free lane.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import draw

TESTS = Path(__file__).parent
# A process with a thread of grpc.aio runs gRPC's fork handlers in every child until its exec. They write to the child's
# standard error: 16 of 300 children had such a line, and none without the handlers (grpcio 1.85.1, 2026-11-23).
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

with contextlib.suppress(ImportError):  # tests/smoke and those on a GPU do without
    from hypothesis import settings

    # No test promises a duration for one example. Hypothesis lifts its deadline by itself only in a CI that it
    # recognises.
    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--inventory FILE`, the hosts that `tests/smoke` asks; `--limit` and `--data` have pyinfra's meaning."""
    group = parser.getgroup("enginehouse")
    group.addoption("--inventory", default="", help="inventory file whose running service tests/smoke asks")
    group.addoption("--limit", action="append", default=[], help="ask these hosts or groups of the inventory only")
    group.addoption("--data", action="append", default=[], help="key=value, as given to pyinfra")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out smoke tests without `--inventory`, and long tests with their own machines, unless they are named."""
    place = collection_path.relative_to(TESTS).as_posix() if collection_path.is_relative_to(TESTS) else ""
    if place in ("rollouts", "monitoring/live", "ubuntu"):
        return None if any(place in word for word in config.args) else True
    return True if place == "smoke" and not config.getoption("--inventory") else None


def pytest_report_header() -> str | None:
    """Returns the share of the faults that ENGINEHOUSE_FAULTS_DRAW selects, if it is set."""
    return draw.words(commit) if (commit := _drawn()) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps only the commit's share of the tests marked `faults` if ENGINEHOUSE_FAULTS_DRAW is set."""
    if not (commit := _drawn()):
        return
    share = draw.share_of(commit)
    left_out = [
        item
        for item in items
        if item.get_closest_marker("faults")
        and not draw.is_in(
            share, item.nodeid.partition("::")[0], getattr(getattr(item, "callspec", None), "indices", {})
        )
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def _drawn() -> str:
    try:
        return draw.commit()
    except ValueError as problem:
        raise pytest.UsageError(str(problem)) from None


WITHOUT_SERVER = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests that need a real Triton which has died; the first test fails with its last output."""
    for life in _servers():
        if life.reported:
            item.stash[WITHOUT_SERVER] = True
            pytest.skip(f"tritonserver died in {life.reported}, which has failed")
        if death := life.death():
            life.reported = f"or before {item.nodeid}"
            pytest.fail(death, pytrace=False)


def _servers() -> list[Any]:
    """Returns the servers that run for tests of this process."""
    module = sys.modules.get("tests.encoders.real_triton")
    return list(module.RUNNING) if module else []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Turns skipped tests into failures in CI, except tests that want a GPU or ask a service."""
    report = yield
    for life in _servers() if report.failed and report.when == "call" else []:
        if not life.reported and (death := life.death()):
            life.reported = item.nodeid
            report.longrepr = f"{death}\n\nso this test ended with:\n{report.longreprtext}"
    may_skip = item.get_closest_marker("gpu") or "smoke" in item.path.parts or item.stash.get(WITHOUT_SERVER, False)
    if report.skipped and os.environ.get("CI") and not may_skip:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Assigns tests to lanes with `--dist loadgroup`: by the group that the module names, else by module."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            return group_of(config.rootpath / module) or module

    return Lanes(config, log)


@functools.cache
def group_of(module: Path) -> str:
    """Returns the xdist_group of a test module; empty if it names none. Refuses a computed group."""
    match = re.search(r'xdist_group\((?:"([^"]+)"\))?', module.read_text("utf-8"))
    if match and not match[1]:
        raise pytest.UsageError(f"{module}: write xdist_group's name as plain text; lanes are chosen by reading it")
    return match[1] if match else ""
