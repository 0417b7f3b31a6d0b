"""Models of `enginehouse fit`: names of the catalog, ids of the hub, or directories of this machine."""

import json
import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, DEFAULT_RELEASE, GPUS
from deploy.catalog.architectures import ALSO_ENCODERS
from deploy.catalog.names import slip_of
from deploy.inventory.first_models import Named
from deploy.io.hub import resolve
from deploy.io.local_paths import is_directory, is_file, local_path
from deploy.io.local_weights import read_local
from deploy.io.model_lock import NAME, read_lock
from deploy.io.pin_models import access_from_environment
from deploy.models.config_json import SERVED
from deploy.models.kinds import kind_problem
from deploy.models.names import shape_published
from deploy.planning.fit import model_named, model_of_kind, near_card, on_its_program
from deploy.refusals import Refusal, refuse
from deploy.spec import LLM, Checkpoint, Embedder, Model, Weights
from deploy.spec.sources import DIRECTORY, HUB_NAME
from deploy.spec.surroundings import LocalWeights, Surroundings
from deploy.validation.published import ENCODES


def models_of(
    words: Iterable[str], surroundings: Surroundings, root: Path, release: str = DEFAULT_RELEASE
) -> tuple[tuple[Model, ...], Surroundings]:
    """A model for each word, and `surroundings` with the known files of these models.

    An LLM that only a program beside Triton loads is one of that program. A hub name is looked up in the catalog, then
    in a lock in this directory, then on the hub. Raises: a Refusal for a name that the hub does not have, or a
    directory that is not a checkpoint.
    """
    models, local = [], dict(surroundings.local)
    locked = {**read_lock(root / "inventories" / NAME), **read_lock(root / NAME)}
    for word in map(_bare, words):
        if word.endswith(".py") and is_file(local_path(word, root)):
            raise _inventory(word)
        directory = local_path(word, root)
        if is_directory(directory):
            model, headers = _of_directory(word, directory)
            local[model.source or model.weights.directory] = headers
        elif DIRECTORY.fullmatch(word):
            raise _no_directory(word, root)
        elif HUB_NAME.fullmatch(word):
            model = _of_hub(word, locked)
        else:
            model = model_named(word)
            if model.checkpoint == word and word not in CHECKPOINTS and not slip_of(word.lower(), CHECKPOINTS):
                raise _no_whole_name(word)
        models.append(on_its_program(model, release))
    return tuple(models), replace(surroundings, local=local, locked=locked)


def named_models(words: Iterable[str]) -> tuple[Named, ...]:
    """Each model as an inventory declares it by its source, of the kind that its files show.

    Raises: a Refusal for a name that neither the hub nor the catalog has, or a directory that is not a checkpoint.
    """
    words = tuple(words)
    models, _around = models_of(words, Surroundings(today=date.today()), Path.cwd())
    return tuple(
        Named(type(model).__name__, _source_of(word, model), _settings_of(model))
        for word, model in zip(words, models, strict=True)
    )


def _settings_of(model: Model) -> str:
    """The settings without which the plan would refuse the model, as Python text behind its source."""
    if isinstance(model, LLM):
        return f', runtime="{model.runtime}", image="{model.image}"' if model.image else ""
    return "" if model.dtype == type(model)(name="").dtype else f', dtype="{model.dtype}"'


def _bare(word: str) -> str:
    """A hub name without the hub's address and the trailing slash; any other word unchanged."""
    name = re.sub(r"^(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com)/", "", word).rstrip("/")
    return name if HUB_NAME.fullmatch(name) and not word.startswith((".", "/", "~")) else word


def _source_of(word: str, model: Model) -> str:
    """The word as a model's source: directories get a leading dot or slash, catalog names become repositories."""
    if model.weights.directory:
        return word if DIRECTORY.fullmatch(word) else f"./{word}"
    return word if HUB_NAME.fullmatch(word) else model.weights.repository


def _of_hub(word: str, locked: dict[str, LocalWeights]) -> Model:
    """The model of a hub name; the hub's answer is added to `locked`, for this command only."""
    repositories = {row.repository.lower(): row.name for row in CHECKPOINTS.values()}
    if word.lower() in repositories and word not in locked:
        return model_named(repositories[word.lower()])
    if word not in locked:
        locked[word] = resolve(word, access_from_environment()).files
    files = locked[word]
    shape = shape_published(files, word)
    if not _is_served(shape):
        return _as_declared(word, files.files)
    weights = Weights.hub(files.repository, files.revision, files=files.fetched)
    return _model(word.partition("@")[0], shape, weights, files.files)


def _of_directory(word: str, directory: Path) -> tuple[Model, LocalWeights]:
    """The model of a local checkpoint, and the sums of its headers."""
    file = directory / "config.json"
    try:
        config = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _no_checkpoint(
            word, "no config.json" if isinstance(error, OSError) else f"config.json: {error}"
        ) from None
    headers = read_local(directory)
    if not isinstance(config, dict):
        raise _no_checkpoint(word, "config.json is not a JSON object")
    if problem := kind_problem(word, headers.files, config):
        raise problem
    shape = shape_published(headers, word)
    if not _is_served(shape):
        return _as_declared(word if DIRECTORY.fullmatch(word) else f"./{word}", headers.files), headers
    return _model(str(directory.resolve()), shape, Weights.local(word), headers.files), headers


def _is_served(shape: Checkpoint) -> bool:
    row = ARCHITECTURES.get(shape.architecture)
    return row is not None and row.kind in SERVED


def _as_declared(source: str, files: Collection[str]) -> Model:
    """The model with only its source, as in an inventory; its architecture may be refused, not its numbers."""
    return Embedder(source) if "modules.json" in files else LLM(source)


def _model(path: str, shape: Checkpoint, weights: Weights, files: Collection[str]) -> Model:
    """The model with every default, of its architecture's kind, named after the last part of its path.

    A decoder that is an encoder too is one by its name, or by the files of sentence-transformers.
    """
    row, last = ARCHITECTURES.get(shape.architecture), path.rsplit("/", 1)[-1]
    kind = row.kind if row else "llm"
    if (shape.architecture, "reranker") in ALSO_ENCODERS and (ENCODES.search(last) or "modules.json" in files):
        kind = "reranker" if "rerank" in last.lower() else "embedder"
    name = re.sub(r"[^a-z0-9.-]+", "-", last.lower()).strip("-.") or "local"
    return model_of_kind(kind, name, shape, shape.positions, weights)


def _no_checkpoint(word: str, seen: str) -> Refusal:
    return refuse(
        "no-checkpoint",
        f"{word} is a directory, and no checkpoint",
        where=word,
        seen=seen,
        wanted="config.json, and the safetensors files whose headers say how large the model is",
        attempt=f"hf download REPOSITORY --local-dir {shlex.quote(word)}",
    )


def _inventory(word: str) -> Refusal:
    return refuse(
        "unknown-checkpoint",
        f"{word} is an inventory, and a model is wanted here",
        where="MODEL",
        seen="a file in Python",
        wanted="names of models",
        attempt=f"enginehouse plan {shlex.quote(word)}",
    )


def _no_whole_name(word: str) -> Refusal:
    bare, parts = re.split("[:=*]", word)[0].lower(), re.split(r"[,\s]+", word)
    if near_card(word)[0] in GPUS:
        return refuse(
            "unknown-checkpoint",
            f"{word} is a card, and a model is wanted here",
            where="MODEL",
            seen=word,
            wanted="names of models; a card is the first word of `fit`, and an option of `size`",
            attempt=f"leave {word} out; of enginehouse size: --gpu {near_card(word)[0]}",
        )
    return refuse(
        "unknown-checkpoint",
        f"{word} is no name of the catalog, and the hub knows names with their owner alone",
        where="MODEL",
        seen=word,
        wanted="OWNER/NAME, as the hub's page of the model shows it; a directory; or a name of the catalog",
        attempt=f"{' '.join(parts)}   each model is a word"
        if len(parts) > 1
        else " or ".join(longer)
        if (longer := [name for name in CHECKPOINTS if name == bare or name.startswith(f"{bare}-")])
        else f"OWNER/{word.partition(':')[0]} with its owner, as in Qwen/Qwen3-32B",
    )


def _no_directory(word: str, root: Path) -> Refusal:
    return refuse(
        "no-checkpoint",
        f"{word} is not a directory of this machine",
        where=word,
        seen="a file" if is_file(local_path(word, root)) else f"no {word} in {root}",
        wanted="a directory with config.json and safetensors files, a name of the catalog, or a hub name",
        attempt=f"hf download OWNER/NAME --local-dir {shlex.quote(word)}; or OWNER/NAME itself",
    )
