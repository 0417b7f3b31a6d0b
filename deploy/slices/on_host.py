"""Weights that a host has already."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OnHostSlice:
    """A directory of the host with a model's files, and its expected content. The directory is only read."""

    model: str
    path: str
    required: tuple[str, ...]
    architecture: str = ""
    """The first class of config.json; empty: any."""
    size_mib: int = 0
    """MiB of the published safetensors files; 0 if unknown."""
    revision: str = ""
    """The commit, if it was declared or locked."""
