"""Asks every host with a gateway for its counters, over ssh, all at once; changes nothing."""

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from deploy.cost.budgets import Budget, budgets_of
from deploy.cost.usage import rows_of
from deploy.inventory.gateway_keys import FILE, KeyFile
from deploy.inventory.ssh_config import ssh_words
from deploy.io.key_file import content_of
from deploy.io.output import MIB, output_of
from deploy.planning.plan import Plan
from deploy.refusals import Refusal

SECONDS = 120
AT_ONCE = 32
MOST_BYTES = 256 * MIB
PROGRAM = "python3 -B /usr/local/lib/enginehouse/host gateway usage"


Rows = dict[str, list[dict[str, Any]] | None]


def usage_rows(plan: Plan, data: Mapping[str, Mapping[str, Any]], since: str) -> Rows:
    """The rows of each host with a gateway since a day (2026-11-01); None for a host that did not answer."""
    hosts = [slice_.host for slice_ in plan.slices if slice_.gateway]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = pool.map(lambda host: rows_of(printed(ssh_words(host, data[host]), since)), hosts)
        return dict(zip(hosts, rows, strict=True))


def known_budgets(plan: Plan, rows: Rows, now: datetime) -> tuple[tuple[Budget, ...], tuple[str, ...]]:
    """The budgets in the file that a deploy sends to the gateways; and a sentence if they cannot be shown."""
    hosts = max((slice_.gateway.hosts for slice_ in plan.slices if slice_.gateway and slice_.gateway.keys), default=0)
    if hosts > len(rows):
        return (), (f"budgets are not shown: {len(rows)} of {hosts} hosts were asked; without --limit all are",)
    try:
        return budgets_of(content_of(Path(FILE)) if hosts else KeyFile(), rows, now), ()
    except Refusal as problem:
        return (), (f"budgets are not shown: {problem}",)


def printed(ssh: list[str], since: str) -> str | None:
    """Output of the host's program, which only root may run; None if it could not be run."""
    command = f'if [ "$(id -u)" = 0 ]; then {PROGRAM} {since}; else sudo -n {PROGRAM} {since}; fi'
    try:
        done = output_of([*ssh, command], seconds=SECONDS, most_bytes=MOST_BYTES)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.status or done.is_too_long else done.stdout
