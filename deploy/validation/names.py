"""Refusals of models that an inventory declares by an unknown name."""

import re
from collections.abc import Iterator
from dataclasses import replace

from deploy.catalog import CHECKPOINTS
from deploy.catalog.names import slip_of
from deploy.inventory.fleet import Fleet
from deploy.models.names import is_named, resolved, shape_named
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import Encoder, Host, Model
from deploy.spec.sources import DIRECTORY, HUB_NAME
from deploy.spec.surroundings import Surroundings

PAGE = re.compile(r"(?:https?://[^/\s]+/)?([^/\s]+/[^/\s]+?)(?:/(?:tree|blob|resolve)/([^/\s]+).*)?")
"""A repository's page: the host, `owner/name`, and below `tree` a revision."""
DASHES = re.compile("[\u2010-\u2015\u2212]")
"""Dashes that word processors write for hyphens."""


def name_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    for server, model in host.served_models:
        if not (model.source or model.checkpoint or model.name):
            yield _no_model(model, server.name)
        elif is_named(model):
            place = model_at(server.name, model.name, "source")
            yield _unknown(model, place, surroundings)


def double_source_problems(fleet: Fleet, surroundings: Surroundings) -> Iterator[tuple[str, Refusal]]:
    for host in fleet.hosts:
        for server, model in host.served_models:
            if model.source and not is_named(model) and not _is_resolved(model, surroundings):
                yield host.name, _two_checkpoints(model, model_at(server.name, model.name, "checkpoint"))


def _is_resolved(model: Model, surroundings: Surroundings) -> bool:
    unresolved = _by_source(model)
    return resolved(unresolved, surroundings).checkpoint == model.checkpoint


def _by_source(model: Model) -> Model:
    """A model of the same class that declares only its source."""
    if isinstance(model, Encoder):
        return replace(model, checkpoint=model.source)
    return replace(model, checkpoint=model.source)


def _two_checkpoints(model: Model, place: str) -> Refusal:
    kind, checkpoint = type(model).__name__, model.checkpoint
    declared = repr(checkpoint) if isinstance(checkpoint, str) else "Checkpoint(…)"
    return refuse(
        "two-checkpoints",
        f"{model.name} has both a source, {model.source}, and a checkpoint",
        where=place,
        seen=f"{kind}({model.source!r}, checkpoint={declared})",
        wanted="only a source, whose files have the numbers; or a checkpoint with weights",
        attempt=f"{kind}({model.source!r}); or {kind}(name={model.name!r}, checkpoint={declared}, weights=…)",
    )


def _unknown(model: Model, place: str, surroundings: Surroundings) -> Refusal:
    if DIRECTORY.fullmatch(model.source):
        return _of_directory(model, place, surroundings)
    if not HUB_NAME.fullmatch(model.source):
        return _no_name(model, place)
    if model.source not in surroundings.locked:
        return refuse(
            "unpinned-model",
            f"{model.name}: {model.source} is not in the lock, so its files and size are unknown",
            where=place,
            seen=f'{type(model).__name__}("{model.source}")' + _locked(surroundings),
            wanted="an entry of models.lock.json beside the inventory: commit, files, sizes, numbers of config.json",
            attempt=f"enginehouse pin {surroundings.inventory or 'INVENTORY'}",
        )
    return _refused(model, place, surroundings)


def _refused(model: Model, place: str, surroundings: Surroundings) -> Refusal:
    """The reason why known files do not give the numbers."""
    try:
        shape_named(model, surroundings)
    except Refusal as problem:
        return problem
    return refuse(
        "config-json",
        f"{model.name}: {model.source} has no readable config.json",
        where=place,
        seen="no config.json",
        wanted="config.json beside the safetensors files",
        attempt="the directory of a transformers checkpoint, or a hub name",
    )


def _no_model(model: Model, server: str) -> Refusal:
    kind = type(model).__name__
    return refuse(
        "no-model",
        f"server {server}: {kind}() names no model",
        where=f'servers["{server}"].models',
        seen=f"{kind}() without a source, a name and a checkpoint",
        wanted="a hub name, a directory, or a checkpoint with its weights",
        attempt=f'{kind}("OWNER/NAME"); if the name comes from a variable, the variable is empty',
    )


def _of_directory(model: Model, place: str, surroundings: Surroundings) -> Refusal:
    if model.source in surroundings.local:
        return _refused(model, place, surroundings)
    return refuse(
        "no-local-weights",
        f"{model.name}: no safetensors files in {model.source} on this machine",
        where=place,
        seen="nothing that ends in .safetensors",
        wanted="config.json and safetensors files, relative to the current directory",
        attempt=f'put them there, or a hub name: {type(model).__name__}("OWNER/NAME")',
    )


def unknown_checkpoint(model: Model, place: str) -> Refusal:
    """The refusal of a checkpoint that the catalog lacks: a slip is offered its row, another model its hub name."""
    word, kind = str(model.checkpoint), type(model).__name__
    slip = slip_of(word.strip().lower(), CHECKPOINTS)
    return refuse(
        "unknown-checkpoint",
        f"checkpoint {word} is not in the catalog",
        where=place,
        seen=repr(word),
        wanted="a row of deploy/catalog/, or any model by its name on the hub",
        attempt=f"did you mean `{slip}`?"
        if slip
        else f'{kind}("{hub_name_meant(word)}"), and enginehouse pin INVENTORY',
    )


def _no_name(model: Model, place: str) -> Refusal:
    meant = hub_name_meant(model.source)
    return refuse(
        "no-hub-name",
        f"{model.source!r} names neither a repository of a model hub nor a directory",
        where=place,
        seen=f"{type(model).__name__}({model.source!r})",
        wanted="owner/name, and after @ a commit, tag or branch; or a directory that begins with ./ or /",
        attempt=f'{type(model).__name__}("{meant}")',
    )


def hub_name_meant(source: str) -> str:
    """The hub name in a pasted URL, in a text with typographic dashes, or of a row of the catalog; else a pattern."""
    if row := CHECKPOINTS.get(source.strip().lower()):
        return row.repository
    bare = re.sub(r"^(?!https?://)[a-z]+:/*|(?<=[\w.-]):[\w.-]+$", "", DASHES.sub("-", source.strip()).rstrip("/"))
    path = PAGE.fullmatch(bare)
    name = f"{path[1]}@{path[2]}" if path and path[2] else path[1] if path else ""
    return name if HUB_NAME.fullmatch(name) else "OWNER/NAME"


def _locked(surroundings: Surroundings) -> str:
    names = sorted(surroundings.locked)
    if not names:
        return "; there is no lock"
    return f"; locked: {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
