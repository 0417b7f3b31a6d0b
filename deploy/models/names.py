"""Models that an inventory declares by a hub name or a directory, with the facts of the lock or the directory.

Pure: the lock (`models.lock.json` beside the inventory) and the directories are in `Surroundings`.
"""

import re
from collections.abc import Collection
from dataclasses import replace

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, KnownCheckpoint
from deploy.models.config_json import checkpoint_of
from deploy.models.memory import head_dim, kv_heads
from deploy.refusals import Refusal, refuse
from deploy.spec import Checkpoint, Encoder, Model, Weights
from deploy.spec.sources import DIRECTORY
from deploy.spec.surroundings import LocalWeights, Surroundings

SHARD = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")


def is_named(model: Model) -> bool:
    return bool(model.source) and model.checkpoint == model.source


def published(source: str, surroundings: Surroundings) -> LocalWeights | None:
    """The files behind a hub name or a directory, if the lock has them or the directory exists."""
    if DIRECTORY.fullmatch(source):
        return surroundings.local.get(source)
    return surroundings.locked.get(source)


def shape_named(model: Model, surroundings: Surroundings) -> Checkpoint | None:
    """The numbers of a named model, or None if its files are unknown.

    Raises: a Refusal for a config.json without them.
    """
    files = published(model.source, surroundings)
    return shape_published(files, model.source) if files and (files.config or files.fault) else None


def shape_published(files: LocalWeights, where: str) -> Checkpoint:
    """The checkpoint's numbers in published files. Raises: a Refusal for a missing number or a damaged file."""
    if fault := files.fault or _missing_shard(files.fetched or files.files):
        raise refuse(
            "files-not-whole",
            f"the files of {where} are not whole",
            where=where,
            seen=fault,
            wanted="config.json as JSON, and every safetensors file with its header and all of its bytes",
            attempt="another revision: OWNER/NAME@COMMIT"
            if files.repository
            else f"hf download OWNER/NAME --local-dir {where}, which fetches what differs",
        )
    return checkpoint_of(files.config, files.parameters, f"{where}/config.json", files.files)


def _missing_shard(names: Collection[str]) -> str:
    """The first file that a series of weights lacks; empty if one series is whole, or without a series."""
    series: dict[str, set[int]] = {}
    for match in filter(None, map(SHARD.fullmatch, names)):
        series.setdefault(match[2], set()).add(int(match[1]))
    missing = {count: next((n for n in range(1, int(count) + 1) if n not in held), 0) for count, held in series.items()}
    if not missing or "model.safetensors" in names or not all(missing.values()):
        return ""
    count, number = next(iter(missing.items()))
    return f"no model-{number:05d}-of-{count}.safetensors beside {len(series[count])} files of its series"


def files_of(architecture: str) -> tuple[str, ...]:
    """The patterns of the files that an architecture needs; an unknown architecture needs the files of LLMs."""
    row = ARCHITECTURES.get(architecture) or ARCHITECTURES["LlamaForCausalLM"]
    return row.files


def resolved(model: Model, surroundings: Surroundings) -> Model:
    """The model with its numbers and weights; unchanged if they are unknown or its config.json is refused."""
    if not is_named(model):
        return model
    try:
        shape = shape_named(model, surroundings)
    except Refusal:
        return model
    files = published(model.source, surroundings)
    if shape is None or files is None:
        return _of_catalog(model)
    known = _same(files, shape)
    return _declared(model, known.name if known else shape, files.repository, files.revision, files.fetched)


def catalogued(source: str) -> KnownCheckpoint | None:
    return next((row for row in CHECKPOINTS.values() if row.repository.lower() == source.lower()), None)


def _of_catalog(model: Model) -> Model:
    """The model with the catalog's numbers and commit; unchanged if the catalog does not have its name."""
    row = catalogued(model.source)
    return _declared(model, row.name, row.repository, row.revision, ()) if row else model


def _declared(
    model: Model, checkpoint: str | Checkpoint, repository: str, revision: str, files: tuple[str, ...]
) -> Model:
    """The model with this checkpoint and these files; declared weights stay."""
    weights = model.weights
    if weights == replace(Weights(), fetch_on=weights.fetch_on, private=weights.private):
        weights = replace(weights, repository=repository, revision=revision, files=files)
    elif weights.path and not weights.repository:
        weights = replace(weights, repository=repository, revision=revision)
    if isinstance(model, Encoder):
        return replace(model, checkpoint=checkpoint, weights=weights)
    return replace(model, checkpoint=checkpoint, weights=weights)


def _same(files: LocalWeights, shape: Checkpoint) -> KnownCheckpoint | None:
    """The catalog's row for this repository, if the row's numbers still equal the file's."""
    row = next((row for row in CHECKPOINTS.values() if files.repository and row.repository == files.repository), None)
    return row if row and numbers(row.shape) == numbers(shape) else None


def numbers(shape: Checkpoint) -> dict[str, object]:
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
