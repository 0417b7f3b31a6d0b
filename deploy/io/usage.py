"""Asks every host with a gateway for its counters, over ssh, all at once; changes nothing."""

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from deploy.cost.usage import UsageReport, added_up, rows_of
from deploy.inventory.ssh_config import ssh_words
from deploy.io.output import MIB, output_of
from deploy.planning.plan import Plan

SECONDS = 120
AT_ONCE = 32
MOST_BYTES = 256 * MIB
PROGRAM = "python3 -B /usr/local/lib/enginehouse/host gateway usage"


def usage_of(
    plan: Plan, data: Mapping[str, Mapping[str, Any]], by: tuple[str, ...], since: str, until: str = ""
) -> UsageReport:
    """The usage of all gateways of the plan since a day (2026-11-01), and up to another day, added up."""
    hosts = [slice_.host for slice_ in plan.slices if slice_.gateway]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = list(pool.map(lambda host: rows_of(printed(ssh_words(host, data[host]), since)), hosts))
    return added_up(dict(zip(hosts, rows, strict=True)), by, since, until)


def printed(ssh: list[str], since: str) -> str | None:
    """Output of the host's program, which only root may run; None if it could not be run."""
    command = f'if [ "$(id -u)" = 0 ]; then {PROGRAM} {since}; else sudo -n {PROGRAM} {since}; fi'
    try:
        done = output_of([*ssh, command], seconds=SECONDS, most_bytes=MOST_BYTES)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.status or done.is_too_long else done.stdout
