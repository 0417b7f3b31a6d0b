"""A container of a server as its host's start line runs it; a Pod or a job of another scheduler runs the same."""

from dataclasses import dataclass

CONTAINER_UID = 61140
"""User and group of containers: above every login (UID_MAX of login.defs is 60000), below systemd's dynamic users
(61184), and not in Debian's list of fixed numbers (base-passwd). Below 65536 for machines that map users."""


@dataclass(frozen=True, kw_only=True)
class ContainerSlice:
    """The arguments of a container that serves. A word `@RELEASE@/…` is a file of the release."""

    name: str
    image: str
    program: tuple[str, ...] = ()
    """Replaces the image's entry point; empty: the entry point stays, and starts the arguments."""
    arguments: tuple[str, ...]
    uid: int
    address: str
    """The host's, on which the ports are published."""
    ports: tuple[tuple[int, int], ...]
    """(port of the host, port of the container)"""
    devices: tuple[str, ...]
    directories: tuple[str, ...]
    """Directories of the host that it reads, at the same paths inside."""
    environment: tuple[tuple[str, str], ...]
    tmp_mib: int
    pids_limit: int
    shm_mib: int
    stop_seconds: int
    """Seconds from the stop signal until the container is killed."""
