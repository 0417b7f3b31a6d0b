"""What the role settles itself; an inventory overrides it with `triton_settings = {…}`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Defaults:
    """Sizes of the container's small resources, and how many old releases a host keeps."""

    keep_releases: int = 3
    """Beside current and previous, which always stay. One release is a few MB; weights are not part of it."""
    tmp_mib: int = 4096
    """tmpfs over /tmp: MPI's session files and compilers' scratch."""
    pids_limit: int = 16384
    """Threads count too: torch and OpenMP start one per core and process."""
    probe_seconds: int = 600
    """The first container of a 14 GB image reads much of it from a cold disk."""
    swap_margin_seconds: int = 900
    """A run waits for a server's start and stop times, twice (putting back), plus this."""
    preprocessing_instances: int = 1
    postprocessing_instances: int = 1
    """Processes that tokenise for one engine; each handles whatever waits at once."""
    bls_instances: int = 4
    """Requests the BLS model of an engine has in work at once: each of its processes waits for its answer."""
