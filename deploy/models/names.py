"""Models that an inventory declares by a hub name or a directory, with what the lock or the directory says of them.

Pure: the lock (`models.lock.json` beside the inventory) and the directories are in `Surroundings`.
"""

from __future__ import annotations

from dataclasses import replace

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, KnownCheckpoint
from deploy.inventory.fleet import Fleet
from deploy.models.config_json import checkpoint_of
from deploy.models.memory import head_dim, kv_heads
from deploy.refusals.errors import Refusal
from deploy.spec import Checkpoint, Encoder, Host, Model, Weights
from deploy.spec.sources import DIRECTORY
from deploy.spec.surroundings import LocalWeights, Surroundings


def with_names(fleet: Fleet, surroundings: Surroundings) -> Fleet:
    """The fleet whose models have numbers and files instead of names; a name that nothing is known about stays."""
    if not any(is_named(model) for host in fleet.hosts for server in host.servers for model in server.models):
        return fleet
    return replace(fleet, hosts=tuple(_with_names(host, surroundings) for host in fleet.hosts))


def is_named(model: Model) -> bool:
    """True if the model is still nothing but its source."""
    return bool(model.source) and model.checkpoint == model.source


def published(source: str, surroundings: Surroundings) -> LocalWeights | None:
    """The files behind a hub name or a directory, if they are locked or here."""
    if DIRECTORY.fullmatch(source):
        return surroundings.local.get(source)
    return surroundings.locked.get(source)


def shape_named(model: Model, surroundings: Surroundings) -> Checkpoint | None:
    """The numbers of a named model, or None where its files are unknown.

    Raises: a Refusal for a config.json that does not say them.
    """
    files = published(model.source, surroundings)
    return shape_published(files, model.source) if files and files.config else None


def shape_published(files: LocalWeights, where: str) -> Checkpoint:
    """The numbers that published files state. Raises: a Refusal for a number that is not there."""
    return checkpoint_of(files.config, files.parameters, f"{where}/config.json", files.files)


def files_of(architecture: str) -> tuple[str, ...]:
    """The patterns of the files that an architecture needs; those of LLMs for an unknown one."""
    row = ARCHITECTURES.get(architecture) or ARCHITECTURES["LlamaForCausalLM"]
    return row.files


def _with_names(host: Host, surroundings: Surroundings) -> Host:
    servers = tuple(
        replace(server, models=tuple(resolved(model, surroundings) for model in server.models))
        for server in host.servers
    )
    return replace(host, servers=servers)


def resolved(model: Model, surroundings: Surroundings) -> Model:
    """The model with its numbers and weights; as it is where they are unknown or its config.json is refused."""
    if not is_named(model):
        return model
    try:
        shape = shape_named(model, surroundings)
    except Refusal:
        return model
    files = published(model.source, surroundings)
    if shape is None or files is None:
        return model
    known = _same(files, shape)
    weights = model.weights
    if weights == replace(Weights(), fetch_on=weights.fetch_on, private=weights.private):
        weights = replace(weights, repository=files.repository, revision=files.revision, files=files.fetched)
    checkpoint: str | Checkpoint = known.name if known else shape
    if isinstance(model, Encoder):
        return replace(model, checkpoint=checkpoint, weights=weights)
    return replace(model, checkpoint=checkpoint, weights=weights)


def _same(files: LocalWeights, shape: Checkpoint) -> KnownCheckpoint | None:
    """The row of the catalog for this repository, if its numbers are still those of the row."""
    row = next((row for row in CHECKPOINTS.values() if files.repository and row.repository == files.repository), None)
    return row if row and numbers(row.shape) == numbers(shape) else None


def numbers(shape: Checkpoint) -> dict[str, object]:
    """The numbers that memory is counted by, heads and their size as counted; parameters and formats apart."""
    return {
        "architecture": shape.architecture,
        "layers": shape.layers,
        "hidden": shape.hidden,
        "heads": shape.heads,
        "kv_heads": kv_heads(shape),
        "head_dim": head_dim(shape),
        "vocabulary": shape.vocabulary,
        "experts": shape.experts,
        "quantisation": shape.quantisation,
    }
