"""Names of the inventory into rows of the catalog.

Gives None for what is unknown; saying so is left to `deploy.checks`.
"""

from __future__ import annotations

from dataclasses import dataclass

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, RELEASES, Architecture, KnownCheckpoint, ReleaseRow
from deploy.slice import ImageSlice
from deploy.spec import Checkpoint, Encoder, Host, Model, Release
from deploy.surroundings import LocalWeights, Surroundings


@dataclass(frozen=True, kw_only=True)
class Served:
    """A model with all the catalog and its own files say about it."""

    model: Model
    shape: Checkpoint
    architecture: Architecture
    known: KnownCheckpoint | None
    local: LocalWeights | None

    @property
    def is_encoder(self) -> bool:
        """Whether this is an embedder or a reranker."""
        return isinstance(self.model, Encoder)

    @property
    def usable_positions(self) -> int:
        """Tokens of the longest sequence: an encoder's training length where known, else the position table."""
        table = self.shape.positions - self.architecture.reserved_positions
        return min(table, self.known.max_tokens) if self.known and self.known.max_tokens else table

    @property
    def dimensions(self) -> int:
        """Length of an embedder's vectors; 0 for everything else."""
        if self.architecture.kind != "embedder":
            return 0
        return self.known.dimensions if self.known else self.shape.hidden


def shape_of(model: Model) -> Checkpoint | None:
    """The shape the inventory states, or the catalog's row."""
    if isinstance(model.checkpoint, Checkpoint):
        return model.checkpoint
    known = CHECKPOINTS.get(model.checkpoint)
    return known.shape if known else None


def serve(model: Model, surroundings: Surroundings) -> Served | None:
    """Everything known about a model, or None where its checkpoint or its architecture is unknown."""
    shape = shape_of(model)
    architecture = ARCHITECTURES.get(shape.architecture) if shape else None
    if shape is None or architecture is None:
        return None
    known = CHECKPOINTS.get(model.checkpoint) if isinstance(model.checkpoint, str) else None
    local = surroundings.local.get(model.weights.directory)
    return Served(model=model, shape=shape, architecture=architecture, known=known, local=local)


def release_row(release: str | Release) -> ReleaseRow | None:
    """The catalog row of a release, or the one a release of one's own is derived from."""
    return RELEASES.get(release.derived_from if isinstance(release, Release) else release)


def image_of(host: Host, row: ReleaseRow) -> ImageSlice:
    """The image a host runs: the row's, with whatever its own release replaces."""
    own = host.release if isinstance(host.release, Release) else Release(name=row.name, derived_from=row.name)
    return ImageSlice(
        reference=own.image or row.image,
        digest=own.digest or host.image_digest,
        triton_core=own.triton_core or row.triton_core,
        trtllm=own.trtllm or row.trtllm,
        cuda=row.cuda,
        repairs=tuple(defect.name for defect in row.defects if defect.name not in own.repairs),
        size_mib=row.size_mib,
    )
