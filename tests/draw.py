"""The share of the faults that a CI run tries: the commit's hash draws it, so that many commits together try all
faults.

All faults take longer than a CI run may. They are divided into SHARES shares of nearly equal length, each with a part
of every long lane, so that an expensive setup (a deployed host, a machine with its own kernel) runs once.

    make test-faults-share                                  the share of the commit that is checked out
    ENGINEHOUSE_FAULTS_DRAW=abc1234 make test-faults-share  the share that a run of that commit tried
    make faults                                        all of them
    python -m tests.draw REPORT.xml                    minutes of each module in a run's --junitxml, for the table here
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
VARIABLE = "ENGINEHOUSE_FAULTS_DRAW"
SHARES, LANES, BUDGET_MINUTES = 5, 4, 25
DIGITS = 7  # of the hash: what is printed is enough to draw the same share again
NO_COMMIT = "0" * DIGITS


@dataclass(frozen=True)
class Whole:
    """A module whose tests share a setup, so that one share contains all of them."""

    lane: str
    share: int
    minutes: float


@dataclass(frozen=True)
class Dealt:
    """A module with one test per value of a parameter: the n-th test is in share n modulo SHARES.

    A test without the parameter is in every share.
    """

    lane: str
    parameter: str
    pieces: int
    setup_minutes: float
    minutes: float


# Minutes of a slow day beside three other lanes on 2 cores. Lanes are the modules' xdist groups.
MODULES: dict[str, Whole | Dealt] = {
    "tests/faults/test_bare.py": Whole("number-7", 0, 4),
    "tests/faults/test_before.py": Whole("number-7", 0, 5),
    "tests/faults/test_bundle.py": Whole("number-7", 0, 7),
    "tests/faults/test_disks.py": Whole("number-7", 1, 4),
    "tests/faults/test_doctor.py": Whole("number-7", 3, 2),
    "tests/faults/test_gateway.py": Whole("number-7", 3, 7),
    "tests/faults/test_crashes.py": Whole("number-7", 0, 6),
    "tests/faults/test_unfinished.py": Whole("number-7", 1, 8),
    "tests/faults/test_manual_changes.py": Whole("number-7", 2, 2),
    "tests/faults/test_line.py": Whole("number-7", 4, 4),
    "tests/faults/test_interference.py": Whole("number-7", 2, 3),
    "tests/faults/test_own_model.py": Whole("number-7", 1, 7),
    "tests/faults/test_packages.py": Whole("number-7", 2, 4),
    "tests/faults/test_partial.py": Whole("number-7", 3, 4),
    "tests/faults/test_registry.py": Whole("number-7", 4, 5),
    "tests/faults/test_traffic.py": Whole("number-7", 0, 2),
    "tests/faults/test_virtual.py": Whole("number-7", 2, 5),
    "tests/faults/test_weights_on_host.py": Whole("number-7", 1, 3),
    "tests/kills/test_kills_bundled.py": Whole("number-10", 0, 9),
    "tests/kills/test_kills_control_fetches.py": Dealt("number-4", "fraction", 15, 4, 4),
    "tests/kills/test_kills_host_fetches.py": Dealt("number-1", "fraction", 15, 4, 4),
    "tests/power/test_cuts.py": Dealt("number-8", "cut", 10, 8, 4),
    "tests/power/test_usage.py": Whole("number-8", 4, 8),
    "tests/rehearsal/test_beside.py": Whole("number-1", 3, 5),
    "tests/rehearsal/test_client_certificates.py": Whole("number-6", 1, 3),
    "tests/rehearsal/test_cloud_init.py": Whole("number-16", 2, 9),
    "tests/rehearsal/test_group.py": Whole("number-12", 4, 16),
    "tests/rehearsal/test_group_mpi.py": Whole("number-13", 3, 12),
    "tests/rehearsal/test_health.py": Whole("number-3", 1, 8),
    "tests/rehearsal/test_https.py": Whole("number-6", 2, 6),
    "tests/rehearsal/test_pods.py": Whole("number-1", 4, 5),
    "tests/rehearsal/test_repairs.py": Whole("number-3", 2, 9),
    "tests/rehearsal/test_proxy.py": Whole("number-18", 1, 6),
    "tests/rehearsal/test_slurm.py": Whole("number-7", 2, 11),
    "tests/rehearsal/test_surface.py": Whole("number-2", 3, 9),
    "tests/roles/traffic/test_notices_pool.py": Whole("number-16", 0, 2),
    "tests/secrets/test_canaries.py": Whole("number-5", 3, 6),
    "tests/secrets/test_naive.py": Whole("number-5", 0, 3),
}


def commit() -> str:
    """Returns the hash that ENGINEHOUSE_FAULTS_DRAW names, or that of the named revision; empty if unset.

    Returns NO_COMMIT for a HEAD that does not exist, as in an unpacked archive. Raises ValueError for other names.
    """
    named = os.environ.get(VARIABLE, "")
    if not named or re.fullmatch(f"[0-9a-f]{{{DIGITS},40}}", named):
        return named
    words = ["git", "rev-parse", "--verify", "--quiet", f"{named}^{{commit}}"]
    answer = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode and named == "HEAD":
        return NO_COMMIT
    if answer.returncode:
        raise ValueError(
            f"{VARIABLE}={named} is neither a hash of {DIGITS} digits or more nor a commit git knows here\n"
            f"  try     {VARIABLE}=0000000 make test-faults-share, or make faults for all of them"
        )
    return answer.stdout.strip()


def share_of(commit: str) -> int:
    """Returns the number of the share that this commit's CI run tries."""
    return int(commit[:DIGITS], 16) % SHARES


def is_in(share: int, module: str, indices: dict[str, int]) -> bool:
    """Returns True if the share contains the test of that module with those parameter indices.

    Raises KeyError for a module that the table lacks.
    """
    row = MODULES[module]
    if isinstance(row, Whole):
        return row.share == share
    return indices.get(row.parameter, share) % SHARES == share


def minutes_of(share: int) -> float:
    """Returns the minutes that a share takes by the table, with its lanes started in the table's order, like pytest."""
    lanes: dict[str, float] = defaultdict(float)
    for row in MODULES.values():
        if isinstance(row, Whole):
            lanes[row.lane] += row.minutes if row.share == share else 0
        else:
            lanes[row.lane] += row.setup_minutes + row.minutes * len(range(share, row.pieces, SHARES))
    workers = [0.0] * LANES
    for minutes in lanes.values():
        workers[workers.index(min(workers))] += minutes
    return max(workers)


def words(commit: str) -> str:
    """Returns a run's message about its draw, with the command that repeats the draw."""
    share = share_of(commit)
    names = []
    for module, row in MODULES.items():
        if isinstance(row, Dealt):
            names.append(f"{len(range(share, row.pieces, SHARES))} of {row.pieces} of {Path(module).stem}")
        elif row.share == share:
            names.append(Path(module).stem)
    origin = f"commit {commit[:DIGITS]}" if commit != NO_COMMIT else f"{NO_COMMIT}, as no commit is known here"
    return (
        f"faults drawn from {origin}: share {share + 1} of {SHARES}, {', '.join(names)}\n"
        f"again: {VARIABLE}={commit[:DIGITS]} make test-faults-share; all: make faults"
    )


def recorded(report: Path) -> dict[str, float]:
    """Returns the minutes of each module in a junit report."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        seconds[case.attrib["classname"].replace(".", "/") + ".py"] += float(case.attrib["time"])
    return {module: round(total / 60, 1) for module, total in sorted(seconds.items())}


def main(arguments: Iterable[str]) -> None:
    """Prints the minutes of each module in the named reports."""
    for name in arguments:
        for module, minutes in recorded(Path(name)).items():
            print(f"{minutes:6.1f}  {module}")


if __name__ == "__main__":
    main(sys.argv[1:])
