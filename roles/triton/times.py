"""Time limits of a server's start and stop: each is a little longer than the limits inside it."""

from deploy.slices.host import ServerSlice

EXIT_MARGIN_SECONDS = 10
"""Triton's exit timeout < docker stop < TimeoutStopSec: each waits this many seconds longer than the one before."""
START_MARGIN_SECONDS = 120
"""Seconds that the unit's start takes besides loading: preparing, and making the container."""


def docker_stop_seconds(server: ServerSlice) -> int:
    return server.stop_seconds + EXIT_MARGIN_SECONDS


def unit_stop_seconds(server: ServerSlice, drain_seconds: int) -> int:
    """TimeoutStopSec of the server's unit; it applies to the drain and to `docker stop` separately."""
    return drain_seconds + docker_stop_seconds(server) + 2 * EXIT_MARGIN_SECONDS


def change_seconds(server: ServerSlice, drain_seconds: int) -> int:
    return server.start_seconds + unit_stop_seconds(server, drain_seconds)


def unit_settings(server: ServerSlice, drain_seconds: int) -> str:
    """The drop-in of the server's unit."""
    drain = f"drain ({drain_seconds} s), then " if drain_seconds else ""
    return (
        f"# {drain}Triton's exit timeout ({server.stop_seconds} s) < docker stop < TimeoutStopSec, so that requests can"
        f" end.\n[Service]\nTimeoutStartSec={server.start_seconds + START_MARGIN_SECONDS}\n"
        f"TimeoutStopSec={unit_stop_seconds(server, drain_seconds)}\n"
    )
