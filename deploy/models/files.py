"""A checkpoint's files on a host: their names, places and disk space.

A role fetches them.
"""

from collections.abc import Iterable
from dataclasses import replace

from deploy.catalog import ARCHITECTURES, CHECKPOINTS
from deploy.models import memory
from deploy.models.resolve import Served
from deploy.models.speculation import speculation_bytes
from deploy.slices.host import WeightsSlice
from deploy.slices.image import ImageSlice
from deploy.slices.on_host import OnHostSlice
from deploy.spec import LLM, Adapter, Draft, Eagle, Lookahead, LoRA, Medusa, ReDrafter, Weights

ROOT = "/var/lib/enginehouse"
WEIGHTS = f"{ROOT}/weights"
ENGINES = f"{ROOT}/engines"
CALIBRATION = f"{ROOT}/calibration"

NOWHERE = "nowhere"
"""`fetch_on` of files that are on the host already: they stay in their directory and are only read."""

IMAGE_UNPACK_FACTOR = 3
"""Bytes of disk for each byte of an image's download while it is pulled: layers compressed, unpacked and in use."""

FEW_MIB = 64
"""Free MiB that every run needs in the data directory and in Docker's: a release, and a container's own files."""
FEW_INODES = 1_000
"""Free inodes that a run needs for releases, weights and environments."""

HEADROOM_MIB = 8192
"""MiB of disk for releases, compile caches and logs, and the free space that keeps a file system fast."""

FINISHED_FILES = (
    "config.json",
    "rank*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "chat_template.jinja",
)
"""A finished TensorRT-LLM checkpoint, with the tokenizer that serving wants."""

TOKENIZER_FILES = tuple(name for name in FINISHED_FILES if not name.endswith(".safetensors"))
"""The files that a gateway reads of an LLM of another host: all of them exact names, none of them weights."""

TOKENIZER_MIB = 40
"""Largest size of these files; 34 MiB with Gemma 3's vocabulary of 262,144 tokens (published files, 2026-11-28)."""

HEAD_FILES = ("config.json", "*.safetensors")
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")

_SUFFIXES: dict[type, str] = {Draft: "draft", Eagle: "eagle", Medusa: "medusa", ReDrafter: "redrafter"}


def weights_of(served: Served) -> WeightsSlice:
    """The files of one model; `revision` is the name of their directory."""
    model = served.model
    finished = isinstance(model, LLM) and model.engine.checkpoint == "trtllm"
    return _slice(
        served,
        model.name,
        model.weights,
        revision=served.local.revision if served.local else "",
        files=FINISHED_FILES if finished else served.architecture.files,
        size_bytes=_size_bytes(served),
    )


def speculative_weights_of(served: Served) -> WeightsSlice | None:
    """The files of the draft model or heads with which a model speculates, in their own directory."""
    speculative = served.model.speculative if isinstance(served.model, LLM) else None
    if speculative is None or isinstance(speculative, Lookahead):
        return None
    local = served.speculation_local
    draft = ARCHITECTURES.get(served.draft.architecture) if served.draft else None
    return _slice(
        served,
        f"{served.model.name}-{_SUFFIXES[type(speculative)]}",
        speculative.weights,
        revision=local.revision if local else "",
        files=draft.files if draft else HEAD_FILES,
        size_bytes=_beside_bytes(served, speculative),
    )


def adapters_of(served: Served) -> tuple[WeightsSlice, ...]:
    """The files of every adapter, each in its own directory."""
    lora = served.model.lora if isinstance(served.model, LLM) else None
    return tuple(_adapter(served, lora, adapter) for adapter in lora.adapters) if lora else ()


def all_weights_of(served: Served) -> tuple[WeightsSlice, ...]:
    """Every set of files of a model: its own files, its speculation's, and its adapters'."""
    beside = speculative_weights_of(served)
    return (weights_of(served), *([beside] if beside else []), *adapters_of(served))


def tokenizer_of(weights: WeightsSlice) -> WeightsSlice:
    """The tokenizer, template and configuration of an LLM, in a directory that its weights never use."""
    return replace(weights, model=f"{weights.model}-tokenizer", files=TOKENIZER_FILES, size_mib=TOKENIZER_MIB)


def weights_path(weights: WeightsSlice) -> str:
    """The directory of the files, on the host and inside the container alike."""
    if weights.fetch_on == NOWHERE:
        return weights.directory
    return f"{WEIGHTS}/{weights.model}/{weights.revision}"


def fetched(weights: Iterable[WeightsSlice]) -> tuple[WeightsSlice, ...]:
    return tuple(files for files in weights if files.fetch_on != NOWHERE)


def on_host_of(served: Served) -> tuple[OnHostSlice, ...]:
    """The expected content of each directory of the host from which a model's files are read."""
    local = served.local
    known_mib = memory.mib(local.stored_bytes if local else served.known.published_bytes if served.known else 0)
    own, *others = all_weights_of(served)
    expected = [
        OnHostSlice(
            model=own.model,
            path=own.directory,
            required=("config.json", "tokenizer.json"),
            architecture=served.shape.architecture,
            size_mib=known_mib,
            revision=own.revision,
        ),
        *(
            OnHostSlice(
                model=files.model,
                path=files.directory,
                required=("adapter_config.json",) if "adapter_config.json" in files.files else ("config.json",),
                revision=files.revision,
            )
            for files in others
        ),
    ]
    places = {files.directory for files in (own, *others) if files.fetch_on == NOWHERE}
    return tuple(files for files in expected if files.path in places)


def blobs_path(digest: str) -> str:
    return f"{ROOT}/blobs/{digest.removeprefix('sha256:')}"


def calibration_path(digest: str) -> str:
    return f"{CALIBRATION}/{digest}"


def image_copies(image: ImageSlice) -> int:
    """Copies of an image's download on the disk while it is pulled; an image shared between hosts has its blobs too."""
    return IMAGE_UNPACK_FACTOR + bool(image.shared_port)


def distinct_images(images: Iterable[ImageSlice]) -> tuple[ImageSlice, ...]:
    return tuple({image.digest or image.reference: image for image in reversed(list(images))}.values())[::-1]


def disk_needed_mib(
    image: ImageSlice,
    weights: Iterable[WeightsSlice],
    engines: Iterable[tuple[int, int]] = (),
    more_images: Iterable[ImageSlice] = (),
) -> int:
    """MiB that the data disk has to hold: images while they are unpacked, every model's files, engines, headroom.

    `engines` are (size, scratch space) of each. Only one is built at a time, so only the largest scratch space counts.
    """
    built = tuple(engines)
    scratch = max((scratch for _size, scratch in built), default=0)
    files = sum(model_files.size_mib for model_files in weights) + sum(size for size, _scratch in built)
    images = sum(image_copies(pulled) * pulled.size_mib for pulled in distinct_images((image, *more_images)))
    return images + files + scratch + HEADROOM_MIB


def shared_directories(served: Iterable[Served]) -> dict[WeightsSlice, str]:
    """The directory of each set of files of one host, keyed by `_unnamed`: the directory of the first model with the
    files.

    The first model's directory is used, so that a model added below the others does not move files.
    """
    directories: dict[WeightsSlice, str] = {}
    for model in served:
        for weights in all_weights_of(model):
            directories.setdefault(_unnamed(weights), weights.model)
    return directories


def _unnamed(weights: WeightsSlice) -> WeightsSlice:
    return replace(weights, model="", size_mib=0)


def _slice(
    served: Served, model: str, weights: Weights, *, revision: str, files: tuple[str, ...], size_bytes: int
) -> WeightsSlice:
    """The files in a directory with the model's name, or in the directory of the host's first model with the same
    files."""
    own = WeightsSlice(
        model=model,
        repository=weights.repository,
        revision=weights.revision or revision,
        directory=weights.path or weights.directory,
        fetch_on=weights.fetch_on,
        files=weights.files or files,
        size_mib=memory.mib(size_bytes),
    )
    return replace(own, model=served.directories.get(_unnamed(own), model))


def _adapter(served: Served, lora: LoRA, adapter: Adapter) -> WeightsSlice:
    """The files of one adapter.

    Shape: 2 matrices of rank x hidden in 16 bit for each module of each layer; a little more for wider modules.
    """
    size = 4 * lora.max_rank * served.shape.hidden * len(lora.target_modules) * served.shape.layers
    return _slice(
        served,
        f"{served.model.name}-lora-{adapter.name}",
        adapter.weights,
        revision=adapter.weights.revision,
        files=ADAPTER_FILES,
        size_bytes=2 * size,
    )


def _beside_bytes(served: Served, speculative: object) -> int:
    if isinstance(speculative, Draft) and not served.speculation_local:
        known = CHECKPOINTS.get(speculative.checkpoint) if isinstance(speculative.checkpoint, str) else None
        if known:
            return known.published_bytes
    return speculation_bytes(served)


def _size_bytes(served: Served) -> int:
    if served.local:
        return served.local.stored_bytes
    if served.known:
        return served.known.published_bytes
    if served.is_encoder:
        return 4 * served.shape.parameters  # published in float32 as a rule
    return memory.llm_weights_mib(served.shape) * memory.MIB
