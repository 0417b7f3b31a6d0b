"""Catalog rows for the names of an inventory.

An unknown name gives None, and `deploy.validation` refuses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deploy.catalog import (
    CHECKPOINTS,
    GPU,
    RELEASES,
    STORED,
    Architecture,
    KnownCheckpoint,
    ReleaseRow,
    architecture_as,
)
from deploy.catalog.mig import PROFILES, rank
from deploy.models.cards import declared_card
from deploy.models.prompts import prefixes_of
from deploy.slices.host import WeightsSlice
from deploy.slices.image import ImageSlice
from deploy.spec import LLM, Checkpoint, Draft, Embedder, Encoder, Host, Lookahead, Model, Release, Server, Weights
from deploy.spec.surroundings import LocalWeights, Surroundings


@dataclass(frozen=True, kw_only=True)
class Served:
    """A model with all facts from the catalog and from its own files."""

    model: Model
    shape: Checkpoint
    architecture: Architecture
    known: KnownCheckpoint | None
    local: LocalWeights | None
    draft: Checkpoint | None = None
    """The shape of the draft model, if there is one."""
    speculation_local: LocalWeights | None = None
    """The headers of a draft's or a head's local directory."""
    directories: Mapping[WeightsSlice, str] = field(default_factory=dict)
    """Directories on the host for files that several of its models share; each key is those files without a model's
    name."""

    @property
    def is_encoder(self) -> bool:
        return isinstance(self.model, Encoder)

    @property
    def uncounted_cache(self) -> str:
        """The cache beside keys and values, which is not calculated; empty if the files show only attention."""
        is_plain = self.local is not None and self.local.config.get("layer_types") == ["attention"]
        return "" if is_plain else self.architecture.extra_cache

    @property
    def usable_positions(self) -> int:
        """Tokens of the longest sequence: an encoder's training length if known, else the position table."""
        table = self.shape.positions - self.architecture.reserved_positions
        return min(table, self.known.max_tokens) if self.known and self.known.max_tokens else table

    @property
    def dimensions(self) -> int:
        """Length of an embedder's vectors; 0 for everything else."""
        if self.architecture.kind != "embedder":
            return 0
        return self.known.dimensions if self.known else self.shape.hidden

    @property
    def prefixes(self) -> Mapping[str, str]:
        """An embedder's prefix of each task: as declared, published or in the catalog; empty if its family fixes them.

        Published prompts are ignored if they lack a task of the family.
        """
        if not isinstance(self.model, Embedder):
            return {}
        published = prefixes_of(self.local.config) if self.local else {}
        published = published if set(self.architecture.tasks) <= set(published) else {}
        return self.model.prefixes or published or (self.known.prefixes if self.known else {})

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.prefixes) or self.architecture.tasks


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The split of a model: `tensor` x `pipeline` GPUs; `expert` divides `tensor`, 0 leaves it to the release."""

    tensor: int
    pipeline: int = 1
    expert: int = 0

    @property
    def world(self) -> int:
        """Number of GPUs over which a model is split, which is also its number of ranks."""
        return self.tensor * self.pipeline


def layout_of(server: Server, model: Model) -> Layout:
    """The model's split over the GPUs of its server, on every host of its group; an encoder is not split."""
    if not isinstance(model, LLM):
        return Layout(tensor=1)
    declared = model.parallel
    pipeline = max(declared.pipeline, 1)
    return Layout(
        tensor=declared.tensor or max(len(server.gpus) * max(len(declared.hosts), 1) // pipeline, 1),
        pipeline=pipeline,
        expert=declared.expert,
    )


def gpu_of(host: Host, server: Server) -> GPU | None:
    """The card on which a server computes: the declared card, or its smallest MIG instance as a card.

    None if the card, or a profile of it, is unknown. Instances are numbered as by the driver, larger ones first.
    """
    card, profiles = declared_card(host.machine), host.machine.mig
    if card is None or not profiles:
        return card
    rows = [PROFILES.get((card.name, name)) for name in profiles]
    cut = sorted((row for row in rows if row), key=rank)
    if len(cut) < len(rows) or not server.gpus:
        return None
    mine = min((cut[index % len(cut)] for index in server.gpus), key=lambda row: row.usable_mib)
    title = f"{card.title}, instance {mine.name}"
    return replace(card, title=title, total_mib=mine.total_mib, reserved_mib=mine.reserved_mib)


def precision_of(served: Served) -> str:
    """The precision of the weights while serving: the requested one, else the stored one."""
    model = served.model
    if not isinstance(model, LLM):
        return model.dtype
    return STORED[served.shape.quantisation] if model.precision == "auto" else model.precision


def kv_dtype_of(served: Served) -> str:
    """The type of numbers in the key/value cache; `auto` is 16 bit, as the planner counts it. Empty for an encoder."""
    if not isinstance(served.model, LLM):
        return ""
    return "bfloat16" if served.model.kv_cache.dtype == "auto" else served.model.kv_cache.dtype


def parsers_of(model: LLM) -> tuple[str, str]:
    """The parsers of its tool calls and of its reasoning, as declared or as the catalog's row has them; "" without a
    parser."""
    known = CHECKPOINTS.get(model.checkpoint) if isinstance(model.checkpoint, str) else None
    row = (known.tool_parser, known.reasoning_parser) if known else ("", "")
    declared = (model.tool_parser, model.reasoning_parser)
    tools, reasoning = (
        of_row if own == "auto" else own.replace("none", "") for own, of_row in zip(declared, row, strict=True)
    )
    return tools, reasoning


def sources_of(model: Model) -> list[tuple[str, Weights]]:
    """Every set of files of a model, with its place inside the model: its own, a draft's or head's, adapters'."""
    sources = [("weights", model.weights)]
    if isinstance(model, LLM):
        if model.speculative and not isinstance(model.speculative, Lookahead):
            sources.append(("speculative.weights", model.speculative.weights))
        adapters = model.lora.adapters if model.lora else ()
        sources += [(f'lora.adapters["{adapter.name}"].weights', adapter.weights) for adapter in adapters]
    return sources


def shape_of(model: Model | Draft) -> Checkpoint | None:
    """The shape in the inventory, or in the catalog's row."""
    if isinstance(model.checkpoint, Checkpoint):
        return model.checkpoint
    known = CHECKPOINTS.get(model.checkpoint)
    return known.shape if known else None


def draft_of(model: Model) -> Checkpoint | None:
    """The shape of the draft model; None without one, or if it is unknown."""
    speculative = model.speculative if isinstance(model, LLM) else None
    return shape_of(speculative) if isinstance(speculative, Draft) else None


def published_files(weights: Weights, surroundings: Surroundings) -> LocalWeights | None:
    """The files of a directory, or of a repository that is locked at this commit."""
    if weights.directory:
        return surroundings.local.get(weights.directory)
    locked = surroundings.locked.values()
    wanted = (weights.repository, weights.revision)
    return next((files for files in locked if wanted[0] and (files.repository, files.revision) == wanted), None)


def serve(model: Model, surroundings: Surroundings) -> Served | None:
    """Everything known about a model, or None if its checkpoint or its architecture is unknown."""
    shape = shape_of(model)
    known = CHECKPOINTS.get(model.checkpoint) if isinstance(model.checkpoint, str) else None
    kind = (known.kind if known else "") or type(model).__name__.lower()
    architecture = architecture_as(shape.architecture, kind) if shape else None
    if shape is None or architecture is None:
        return None
    local = published_files(model.weights, surroundings)
    beside = next((weights for place, weights in sources_of(model) if place == "speculative.weights"), None)
    return Served(
        model=model,
        shape=shape,
        architecture=architecture,
        known=known,
        local=local,
        draft=draft_of(model),
        speculation_local=surroundings.local.get(beside.directory) if beside else None,
    )


def release_row(release: str | Release) -> ReleaseRow | None:
    return RELEASES.get(release.derived_from if isinstance(release, Release) else release)


def image_of(host: Host, row: ReleaseRow) -> ImageSlice:
    """The image of a host: the row's, with the parts that the host's own release replaces."""
    own = host.release if isinstance(host.release, Release) else Release(name=row.name, derived_from=row.name)
    return ImageSlice(
        reference=own.image or row.image,
        digest=own.digest or host.image_digest,
        triton_core=own.triton_core or row.triton_core,
        trtllm=own.trtllm or row.trtllm,
        cuda=row.cuda,
        repairs=tuple(defect.name for defect in row.defects if defect.name not in own.repairs),
        size_mib=own.size_mib or row.size_mib,
        shared_port=host.sharing.images_port if host.sharing and (own.digest or host.image_digest) else 0,
    )
