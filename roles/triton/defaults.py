"""Settings of the role with their defaults; an inventory overrides them with `triton_settings = {…}`."""

from dataclasses import dataclass
from typing import Annotated

from deploy.inventory.knobs import SECONDS, Range


@dataclass(frozen=True)
class Defaults:
    """Sizes of the container's small resources, and the number of old releases that a host keeps."""

    keep_releases: Annotated[int, Range(1, 1000)] = 3
    """Releases kept beside current and previous, which always stay. One release is a few MB, without weights."""
    tmp_mib: Annotated[int, Range(64, 1_000_000)] = 4096
    """tmpfs over /tmp: MPI's session files and compilers' scratch."""
    pids_limit: Annotated[int, Range(256, 4_194_304)] = 16384
    """Threads count too: torch and OpenMP start one per core and process."""
    probe_seconds: Annotated[int, SECONDS] = 600
    """The first container of a 14 GB image reads much of it from a cold disk."""
    swap_margin_seconds: Annotated[int, SECONDS] = 900
    """A run waits for a server's start and stop times, twice (putting back), plus this."""
    preprocessing_instances: Annotated[int, Range(1, 256)] = 1
    """Processes that turn text into tokens for one engine; each handles all waiting requests at once."""
    postprocessing_instances: Annotated[int, Range(1, 256)] = 1
    """Processes that turn tokens into text for one engine; each handles all waiting requests at once."""
    bls_instances: Annotated[int, Range(1, 1024)] = 4
    """Requests the BLS model of an engine has in work at once: each of its processes waits for its answer."""
