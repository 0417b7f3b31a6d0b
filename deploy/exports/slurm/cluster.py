"""The operator's settings of a cluster: its container runtime, its shared directory, the time limit of a job."""

import re
from dataclasses import dataclass

from deploy.models.files import ROOT

RUNTIMES = ("docker", "pyxis")
LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})", re.ASCII)
NO_LIMIT = "UNLIMITED"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The container runtime, the directory with `weights` that every node can read, and `--time` as Slurm writes it."""

    runtime: str = "docker"
    root: str = ROOT
    time: str = "1-00:00:00"


def seconds_of(limit: str) -> int:
    """Seconds of `30`, `30:00`, `12:00:00`, `1-0`, `1-00:00`, `1-00:00:00`; -1 without a limit, 0 for other texts."""
    if limit == NO_LIMIT:
        return -1
    match = LIMIT.fullmatch(limit)
    if not match:
        return 0
    parts = [int(part) for part in match["clock"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
        return ((int(match["days"]) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(parts) == 3:
        return (parts[0] * 60 + parts[1]) * 60 + parts[2]
    minutes, seconds = [*parts, 0][:2]
    return minutes * 60 + seconds
