"""Which files of a checkpoint reach a host, where they lie there, and how much disk that takes.

Fetching is a role's work.
"""

from __future__ import annotations

from collections.abc import Iterable

from deploy import memory
from deploy.resolve import Served
from deploy.slice import ImageSlice, WeightsSlice

ROOT = "/var/lib/enginehouse"
WEIGHTS = f"{ROOT}/weights"
ENGINES = f"{ROOT}/engines"

IMAGE_UNPACK_FACTOR = 3
"""Disk an image takes while it is pulled, for each byte of download: layers compressed, unpacked and in use."""

HEADROOM_MIB = 8192
"""Releases, compile caches, logs, and the room a file system wants to stay fast."""


def weights_of(served: Served) -> WeightsSlice:
    """The files of one model; `revision` names the directory they are published in."""
    weights = served.model.weights
    return WeightsSlice(
        model=served.model.name,
        repository=weights.repository,
        revision=weights.revision or (served.local.revision if served.local else ""),
        directory=weights.directory,
        fetch_on=weights.fetch_on,
        files=weights.files or served.architecture.files,
        size_mib=memory.mib(_size_bytes(served)),
    )


def weights_path(weights: WeightsSlice) -> str:
    """Where the files lie, on the host and inside the container alike."""
    return f"{WEIGHTS}/{weights.model}/{weights.revision}"


def disk_needed_mib(image: ImageSlice, weights: Iterable[WeightsSlice]) -> int:
    """MiB the data disk has to hold: the image while it unpacks, every model's files, headroom."""
    return IMAGE_UNPACK_FACTOR * image.size_mib + sum(one.size_mib for one in weights) + HEADROOM_MIB


def _size_bytes(served: Served) -> int:
    if served.local:
        return served.local.stored_bytes
    if served.known:
        return served.known.published_bytes
    if served.is_encoder:
        return 4 * served.shape.parameters  # published in float32 as a rule
    return memory.llm_weights_mib(served.shape) * memory.MIB
