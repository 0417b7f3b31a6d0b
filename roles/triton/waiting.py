"""The wait of a unit for directories that its host mounts: the server starts once their files are there.

A mount that comes late in a boot, or after its file server, would otherwise count as a failed start, and five of those
stop a unit for good. `RequiresMountsFor=` is no help: systemd gives up such a unit once its mount has failed.
"""

from collections.abc import Iterable

from deploy.models.files import NOWHERE
from deploy.slices.host import ModelSlice, ServerSlice
from deploy.slices.own_model import OwnModelSlice
from roles.triton.times import START_MARGIN_SECONDS

EVERY_SECONDS = 15
WAIT_SECONDS = 1560
"""Seconds that a start waits: five such starts last longer than the two hours in which StartLimitBurst counts starts.
"""


def awaited(models: Iterable[ModelSlice], own_models: Iterable[OwnModelSlice] = ()) -> tuple[str, ...]:
    """A file of each directory of the host from which the models are read."""
    files = [weights for model in models for weights in (model.weights, model.drafts_with, *model.adapters) if weights]
    places = {
        f"{weights.directory}/{'adapter_config.json' if 'adapter_config.json' in weights.files else 'config.json'}"
        for weights in files
        if weights.fetch_on == NOWHERE
    }
    return tuple(sorted(places | {f"{model.directory}/config.pbtxt" for model in own_models}))


def wait_settings(server: ServerSlice, paths: Iterable[str]) -> str:
    """Lines for the `[Service]` section of a drop-in; empty without paths."""
    lines = [
        f"ExecStartPre=/bin/sh -c 'until test -e {path}; do echo waiting for {path}; sleep {EVERY_SECONDS}; done'"
        for path in paths
    ]
    if not lines:
        return ""
    limit = server.start_seconds + START_MARGIN_SECONDS + WAIT_SECONDS
    return "\n".join(("# A mount may come late.", f"TimeoutStartSec={limit}", *lines, ""))
