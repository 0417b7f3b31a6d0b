"""Refusals of weights and models that no cluster can serve, for every export."""

from collections.abc import Iterator

from deploy.refusals import Refusal, refuse
from deploy.slices.host import ServerSlice, Slice


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


def unserved_models(
    host: str, server: ServerSlice, *, reader: str, own: str, builder: str, kind: str, wanted: str
) -> Iterator[Refusal]:
    """A refusal for each model that needs its host: the operator's own models, and engines, refused as `kind`."""
    place = f"{host}: servers[{server.name!r}]"
    for model in server.own_models:
        yield refuse(
            "own-model-of-a-host",
            f"{reader} has no directory of a host, and {model.name} is the operator's own model in one",
            where=f"{place}.own_models[{model.name!r}]",
            seen=model.directory,
            wanted="models that the plan knows, whose weights the cluster fetches",
            attempt=f"leave it out here, and serve it from {own} of your own",
        )
    for compiled in server.models:
        if compiled.path == "engine":
            yield refuse(
                kind,
                f"{compiled.name} is served by an engine that a host compiles and signs; no {builder} does that",
                where=f"{place}.models[{compiled.name!r}].path",
                seen='path="engine"',
                wanted=wanted,
                attempt='path="pytorch"',
            )
