"""Models of `enginehouse fit`: names of the catalog, ids of the hub, or directories of this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from deploy.catalog import ARCHITECTURES, CHECKPOINTS
from deploy.catalog.names import nearest
from deploy.io.local_weights import read_local
from deploy.models.config_json import checkpoint_of
from deploy.planning.fit import model_named, model_of_kind
from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse
from deploy.spec import Model, Weights
from deploy.spec.surroundings import LocalWeights, Surroundings


def models_of(words: Iterable[str], surroundings: Surroundings, root: Path) -> tuple[tuple[Model, ...], Surroundings]:
    """A model for each word, and `surroundings` with the headers of the directories among them.

    Raises: a Refusal for an id the catalog does not have, or a directory that is no checkpoint.
    """
    models, local = [], dict(surroundings.local)
    for word in words:
        directory = root / Path(word).expanduser()
        if directory.is_dir():
            model, headers = _of_directory(word, directory)
            local[model.weights.directory] = headers
        else:
            model = _of_hub(word) if "/" in word else model_named(word)
        models.append(model)
    return tuple(models), replace(surroundings, local=local)


def _of_hub(word: str) -> Model:
    """The catalog's checkpoint of a hub id. The hub is not asked: its config.json does not say how large a file is."""
    repositories = {row.repository.lower(): row.name for row in CHECKPOINTS.values()}
    if word.lower() in repositories:
        return model_named(repositories[word.lower()])
    close = nearest(word, [row.repository for row in CHECKPOINTS.values()])
    raise refuse(
        "unknown-hub-id",
        f"{word} is neither a directory here nor a repository of the catalog",
        where=word,
        seen=f"no directory {word}",
        wanted="a name or hub id of the catalog, or a directory with config.json and safetensors files",
        attempt=f"hf download {word} --local-dir weights, then name weights" + (f"; or {close}" if close else ""),
    )


def _of_directory(word: str, directory: Path) -> tuple[Model, LocalWeights]:
    """The model of a local checkpoint, and what its headers add up to."""
    file = directory / "config.json"
    try:
        config = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _no_checkpoint(
            word, "no config.json" if isinstance(error, OSError) else f"config.json: {error}"
        ) from None
    if not isinstance(config, dict) or not any(directory.glob("*.safetensors")):
        raise _no_checkpoint(word, "no safetensors files beside config.json")
    headers = read_local(directory)
    shape = checkpoint_of(config, headers.parameters, f"{word}/config.json")
    row = ARCHITECTURES.get(shape.architecture)
    name = re.sub(r"[^a-z0-9.-]+", "-", directory.resolve().name.lower()).strip("-.") or "local"
    return model_of_kind(row.kind if row else "llm", name, shape, shape.positions, Weights.local(word)), headers


def _no_checkpoint(word: str, seen: str) -> Refusal:
    return refuse(
        "no-checkpoint",
        f"{word} is a directory, and no checkpoint",
        where=word,
        seen=seen,
        wanted="config.json, and the safetensors files whose headers say how large the model is",
        attempt=f"hf download REPOSITORY --local-dir {word}",
    )
