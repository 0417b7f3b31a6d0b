"""Judges whether a checkpoint's numbers, from which memory is calculated, fit the repository of its weights.

A repository with the name of another checkpoint of the catalog is refused; one without a known name (a renamed mirror,
a fine-tune) is planned, and the plan names the numbers it used.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from deploy.catalog import CHECKPOINTS, KnownCheckpoint
from deploy.catalog.formats import FORMATS
from deploy.models.memory import MIB, head_dim, kv_heads
from deploy.models.names import shape_published
from deploy.models.prompts import other_prompts
from deploy.models.resolve import published_files
from deploy.models.sentence_steps import is_unscaled
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Checkpoint, Draft, Embedder, Host, Model, Weights
from deploy.spec.sources import DIRECTORY
from deploy.spec.surroundings import LocalWeights, Surroundings

APART_PERCENT = 10
"""Files of one checkpoint in the same precision differ by less than this percentage between publishers."""
COMPARED = ("architecture", "layers", "hidden", "heads", "vocabulary", "experts", "quantisation")
OF_FILES = (
    *("positions", "intermediate", "dense_intermediate", "active_experts"),
    *("kv_lora_rank", "qk_rope_head_dim", "q_lora_rank"),
)
"""Typed numbers that known files decide; one that was left out is 0, and is not compared. Positions of the catalog may
be fewer than those of the files, as those of training are."""


class Source(NamedTuple):
    """A checkpoint with its weights, and the places of both inside the model."""

    checkpoint: str | Checkpoint
    weights: Weights
    checkpoint_at: tuple[str, ...]
    weights_at: tuple[str, ...]


def repository_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each model of one host whose numbers belong to another checkpoint than its repository.

    Locked or local files decide; else the repository's name does.
    """
    for server, model in host.served_models:
        for source in sources(model):
            known, files = _declared(source), published_files(source.weights, surroundings)
            if files and files.config:
                yield from _filed_otherwise(server.name, model, source, files)
            elif known:
                yield from _named_otherwise(server.name, model, source, known)
            elif isinstance(source.checkpoint, Checkpoint):
                yield from _shaped_otherwise(server.name, model, source, source.checkpoint)


def repository_notices(host: Host, surroundings: Surroundings) -> Iterator[str]:
    for _, model in host.served_models:
        for source in sources(model):
            known, weights = _declared(source), source.weights
            files = published_files(weights, surroundings)
            others = other_prompts(files.config) if files and isinstance(model, Embedder) else []
            if others and isinstance(model, Embedder) and not model.prefixes:
                yield (
                    f"{model.name}: its repository has prompts that stand for no task here ({', '.join(others[:6])}); "
                    "prefixes={…} of the Embedder gives a task another prompt"
                )
            if files and isinstance(model, Embedder) and is_unscaled(files.config):
                yield (
                    f"{model.name}: its repository has no step Normalize, and vectors here have length 1; for dot "
                    "products of its own lengths a request says normalize=false"
                )
            local = surroundings.local.get(weights.directory)
            if known and weights.repository and not _is_named(weights.repository, known):
                yield (
                    f"{model.name}: nothing here knows {weights.repository}; its memory is counted as {known.name}, "
                    "which is right only for a copy or a fine-tune of it in the same precision"
                )
            is_typed = isinstance(source.checkpoint, Checkpoint) and weights.repository and not model.source
            if is_typed and published_files(weights, surroundings) is None:
                yield (
                    f"{model.name}: its numbers are typed, and nobody compared them with {weights.repository}; "
                    f"`enginehouse pin {surroundings.inventory or 'INVENTORY'}` does"
                )
            if known and local and _differ(local.stored_bytes, known.published_bytes):
                yield (
                    f"{model.name}: {weights.directory} holds {local.stored_bytes / 1e9:.1f} GB and {known.name} is "
                    f"published with {known.published_bytes / 1e9:.1f}; its cache is counted as {known.name}'s"
                )


def sources(model: Model) -> list[Source]:
    """Every checkpoint of a model with its own weights: the model's, and a draft's."""
    checkpoints = [Source(model.checkpoint, model.weights, ("checkpoint",), ("weights",))]
    draft = model.speculative if isinstance(model, LLM) else None
    if isinstance(draft, Draft):
        checkpoints.append(
            Source(draft.checkpoint, draft.weights, ("speculative", "checkpoint"), ("speculative", "weights"))
        )
    return checkpoints


def held_by(repository: str) -> list[KnownCheckpoint]:
    """The checkpoints of the catalog whose name is part of the repository's; of several, the checkpoints with the
    longest name."""
    words = _words(repository.rsplit("/", 1)[-1])
    lengths = {row.name: max(_carried(words, row.name), _carried(words, row.repository.rsplit("/", 1)[-1]))
               for row in CHECKPOINTS.values()}  # fmt: skip
    longest = max(lengths.values(), default=0)
    return [CHECKPOINTS[name] for name, length in lengths.items() if length == longest and longest]


def _is_named(repository: str, known: KnownCheckpoint) -> bool:
    """True if the last part of the repository is exactly the checkpoint's name: a suffix may be another precision."""
    own = (known.name, known.repository.rsplit("/", 1)[-1])
    return _words(repository.rsplit("/", 1)[-1]) in [_words(name) for name in own]


def _carried(words: list[str], name: str) -> int:
    """Number of words of `name` that are consecutive in `words`; 0 unless all are."""
    wanted = _words(name)
    places = range(len(words) - len(wanted) + 1)
    return len(wanted) if any(words[at : at + len(wanted)] == wanted for at in places) else 0


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _declared(source: Source) -> KnownCheckpoint | None:
    return CHECKPOINTS.get(source.checkpoint) if isinstance(source.checkpoint, str) else None


def _named_otherwise(server: str, model: Model, source: Source, known: KnownCheckpoint) -> Iterator[Refusal]:
    held = held_by(source.weights.repository)
    if not held or known in held:
        return
    yield refuse(
        "repository-of-another-checkpoint",
        f"{model.name}: memory is counted for {known.name}, and the weights are those of {held[0].name}",
        where=model_at(server, model.name, *source.weights_at, "repository"),
        seen=f'checkpoint="{known.name}", weights of {source.weights.repository}',
        wanted="one model in both: a card that holds the one may not hold the other",
        attempt=f'checkpoint="{held[0].name}"; or Weights.hub("{known.repository}", "{known.revision}"); or, for '
        "a model of your own with this name, a Checkpoint(…) with the numbers of its config.json",
    )


def _shaped_otherwise(server: str, model: Model, source: Source, shape: Checkpoint) -> Iterator[Refusal]:
    """A refusal if the typed numbers of a catalogued repository differ from the catalog's."""
    row = next((row for row in CHECKPOINTS.values() if row.repository == source.weights.repository), None)
    differing = list(_differing(shape, row.shape)) if row else []
    if row is None or not differing:
        return
    yield refuse(
        "numbers-of-another-checkpoint",
        f"{model.name}: the typed numbers differ from those of {row.repository}",
        where=model_at(server, model.name, *source.checkpoint_at),
        seen=", ".join(f"{name}={typed}" for name, typed, _known in differing),
        wanted=", ".join(f"{name}={known}" for name, _typed, known in differing),
        attempt=f'checkpoint="{row.name}", which has the numbers of its config.json',
    )


def _filed_otherwise(server: str, model: Model, source: Source, files: LocalWeights) -> Iterator[Refusal]:
    """A refusal if the inventory's numbers, typed or from the catalog, differ from the numbers of the named files."""
    place = files.repository or source.weights.directory
    row = _declared(source)
    typed = row.shape if row else source.checkpoint
    if not isinstance(typed, Checkpoint):
        return
    try:
        read = shape_published(files, place)
    except Refusal as problem:
        yield problem
        return
    differing = [row for row in _differing(typed, read) if row[0] != "parameters" or not _is_packed(read)]
    for field in OF_FILES if row is None else ():
        if getattr(typed, field) not in (0, getattr(read, field)):
            differing.append((field, repr(getattr(typed, field)), repr(getattr(read, field))))
    taken, stored = typed.weights_mib * MIB, files.stored_bytes
    if taken and not stored <= 2.2 * taken <= 5 * stored:  # 32-bit files may be loaded in 16 bit, and kernels pad
        differing.append(("weights_mib", f"{typed.weights_mib:_}", f"about {stored // MIB:_}"))
    if typed.format and typed.format != read.format:
        differing.append(("format", repr(typed.format), repr(read.format)))
    if not differing:
        return
    name = f"{files.repository}@{files.revision}" if files.repository else _as_directory(place)
    yield refuse(
        "numbers-of-other-files",
        f"{model.name}: the declared numbers, by which memory is counted, differ from those of {place}",
        where=model_at(server, model.name, *source.checkpoint_at),
        seen=", ".join(f"{name}={typed}" for name, typed, _read in differing),
        wanted=", ".join(f"{name}={read}" for name, _typed, read in differing) + f", as {place}/config.json has them",
        attempt=f'{type(model).__name__}("{name}"), which reads them; or the numbers of the files',
    )


def _is_packed(shape: Checkpoint) -> bool:
    return bool(shape.format) and FORMATS[shape.format].quantisation != "fp8"


def _as_directory(place: str) -> str:
    return place if DIRECTORY.fullmatch(place) else f"./{place}"


def _differing(typed: Checkpoint, known: Checkpoint) -> Iterator[tuple[str, object, object]]:
    """(field, typed, known) of every number that memory depends on; parameters may differ by a rounding."""
    for name in COMPARED:
        if getattr(typed, name) != getattr(known, name):
            yield name, repr(getattr(typed, name)), repr(getattr(known, name))
    for name, count in (("kv_heads", kv_heads), ("head_dim", head_dim)):
        if typed.heads and count(typed) != count(known):
            yield name, count(typed), count(known)
    if _differ(typed.parameters, known.parameters):
        yield "parameters", f"{typed.parameters:_}", f"{known.parameters:_}"


def _differ(size: int, second_size: int) -> bool:
    return abs(size - second_size) * 100 > APART_PERCENT * second_size
