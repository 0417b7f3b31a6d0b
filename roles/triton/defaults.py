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
    """MiB of the tmpfs over /tmp: MPI's session files and compilers' scratch files."""
    pids_limit: Annotated[int, Range(256, 4_194_304)] = 16384
    """Most processes and threads of the container: torch and OpenMP start a thread per core and process."""
    probe_seconds: Annotated[int, SECONDS] = 600
    """Seconds for the proof of CUDA: the first container of a 14 GB image reads much of the image from a cold disk."""
    swap_margin_seconds: Annotated[int, SECONDS] = 900
    """Seconds that a run waits beyond a server's start and stop times, which count twice (for a restoration)."""
    preprocessing_instances: Annotated[int, Range(1, 256)] = 1
    """Processes that turn text into tokens for one engine; each handles all waiting requests at once."""
    postprocessing_instances: Annotated[int, Range(1, 256)] = 1
    """Processes that turn tokens into text for one engine; each handles all waiting requests at once."""
    bls_instances: Annotated[int, Range(1, 1024)] = 4
    """Requests that an engine's BLS model handles at once: each of its processes waits for its answer."""
