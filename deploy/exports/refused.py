"""Refusals of weights that no cluster can fetch, for every export."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse
from deploy.slices.host import Slice


def weights_problems(mine: Slice, reader: str) -> Iterator[Refusal]:
    """A refusal for each set of weights that a Pod or a job, the `reader`, would not find."""
    places = [
        ("weights-of-a-host", "a host", f'Weights.on_host("{files.path}")', files.model) for files in mine.on_host
    ]
    places += [
        ("weights-of-the-control-machine", "the control machine", "Weights.local(…)", weights.model)
        for weights in mine.weights
        if not weights.repository
    ]
    for kind, owner, seen, model in places:
        yield refuse(
            kind,
            f"{reader} reads weights that the cluster fetched, and those of {model} are in a directory of {owner}",
            where=f"{mine.host}: weights of {model}",
            seen=seen,
            wanted="weights that the cluster fetches from a hub",
            attempt='Weights.hub("OWNER/NAME", "COMMIT")',
        )
