"""Options every suite shares. `tests/smoke` asks a running service: collected only when an inventory is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--inventory FILE` names the hosts `tests/smoke` asks; `--limit` and `--data` mean what they mean to pyinfra."""
    group = parser.getgroup("enginehouse")
    group.addoption("--inventory", default="", help="inventory file whose running service tests/smoke asks")
    group.addoption("--limit", action="append", default=[], help="ask these hosts or groups of the inventory only")
    group.addoption("--data", action="append", default=[], help="key=value, as given to pyinfra")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Smoke tests need a service to ask: without `--inventory` they are not collected."""
    in_smoke = collection_path.name == "smoke" and collection_path.parent.name == "tests"
    return True if in_smoke and not config.getoption("--inventory") else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """In CI a skipped test has failed, unless it wants a GPU or asks a service: what cannot run there must be seen."""
    report = yield
    may_skip = item.get_closest_marker("gpu") or "smoke" in item.path.parts
    if report.skipped and os.environ.get("CI") and not may_skip:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
