"""Refusals of weights: not pinned, not safetensors, or two sets in one directory."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch

from deploy.catalog import CHECKPOINTS
from deploy.models.resolve import sources_of
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import Encoder, Host, Model, Server, Weights
from deploy.spec.surroundings import Surroundings
from deploy.validation.on_host import on_host_problems

COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
PICKLES = (".bin", ".ckpt", ".h5", ".msgpack", ".pickle", ".pkl", ".pt", ".pth")


def weights_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each mistake in the sources of one host's weights."""
    seen: dict[str, tuple[str, Weights]] = {}
    for server, model in host.served_models:
        for part, weights in sources_of(model):
            place = model_at(server.name, model.name, part)
            yield from _source(model, weights, place, surroundings)
            yield from _files(model, weights, place)
        where, first = seen.setdefault(model.name, (server.name, model.weights))
        if first != model.weights and where != server.name:
            yield _two_sources(server, model, where)


def _source(model: Model, weights: Weights, place: str, surroundings: Surroundings) -> Iterator[Refusal]:
    if weights.path or weights.fetch_on == "nowhere":
        yield from on_host_problems(model, weights, place)
    elif bool(weights.repository) == bool(weights.directory):
        yield refuse(
            "no-weights",
            f"{model.name} has {'two sources' if weights.directory else 'no source'} of weights",
            where=place,
            seen=f"repository={weights.repository!r}, directory={weights.directory!r}",
            wanted="either a repository of a model hub or a directory",
            attempt=f'Weights.hub("{_repository(model)}", REVISION), or Weights.local("weights/{model.name}")',
        )
    elif weights.directory and weights.directory not in surroundings.local:
        yield refuse(
            "no-local-weights",
            f"{model.name}: no safetensors files in {weights.directory} on the machine where you type this",
            where=f"{place}.directory",
            seen="nothing that ends in .safetensors",
            wanted="the files of the checkpoint, relative to the current directory",
            attempt=(
                "download it, and name the directory; or " if "://" in weights.directory else "put them there, or "
            )
            + f'Weights.hub("{_repository(model)}", REVISION)',
        )
    elif weights.repository:
        yield from _hub(model, weights, place)


def _hub(model: Model, weights: Weights, place: str) -> Iterator[Refusal]:
    is_swapped = bool(COMMIT.fullmatch(weights.repository) and REPOSITORY.fullmatch(weights.revision))
    if not REPOSITORY.fullmatch(weights.repository):
        yield refuse(
            "bad-repository",
            f"{model.name}: {weights.repository!r} is not the name of a repository on a model hub",
            where=f"{place}.repository",
            seen=repr(weights.repository),
            wanted="owner/name, without a host",
            attempt=f'Weights.hub("{weights.revision}", "{weights.repository}")'
            if is_swapped
            else f'Weights.hub("{_repository(model)}", …)',
        )
    if not COMMIT.fullmatch(weights.revision) and not is_swapped:
        known = next((row for row in CHECKPOINTS.values() if row.repository == weights.repository), None)
        pin = f'Weights.hub("{weights.repository}", "{known.revision}")' if known else ""
        yield refuse(
            "unpinned-weights",
            f"{model.name}: weights at {weights.revision or 'no revision'!r} may change",
            where=f"{place}.revision",
            seen=repr(weights.revision),
            wanted="a commit: 40 lower-case hex digits",
            attempt=pin or "the commit that the hub shows under Files, History",
        )


def _files(model: Model, weights: Weights, place: str) -> Iterator[Refusal]:
    place = f"{place}.files"
    rewritten = [name for name in weights.files if _is_rewritten(model, weights, name)]
    for name in weights.files:
        if name.startswith("/") or ".." in name.split("/"):
            yield refuse(
                "file-outside",
                f"{model.name}: {name!r} points outside the checkpoint",
                where=place,
                seen=repr(name),
                wanted="a name inside the repository",
                attempt="leave files out: the architecture has its own list",
            )
        elif (name.lower().endswith(PICKLES) and name not in rewritten) or name in ("*", "**", "*.*"):
            yield refuse(
                "pickle",
                f"{model.name}: {name!r} would fetch a pickle, and loading a pickle runs the code in it",
                where=place,
                seen=repr(name),
                wanted="safetensors, JSON and tokenizer files",
                attempt="leave files out: the architecture's list has what is needed and no pickle",
            )
    listed = weights.files
    if (
        listed
        and not rewritten
        and not any(
            fnmatch("model-00001-of-00002.safetensors", pattern) or pattern.endswith("safetensors")
            for pattern in listed
        )
    ):
        yield refuse(
            "no-safetensors",
            f"{model.name}: none of the listed files is a safetensors file",
            where=place,
            seen=", ".join(listed),
            wanted="config.json, the tokenizer and *.safetensors",
            attempt="the repository that these were converted from: GGUF is llama.cpp's format"
            if any(name.lower().endswith(".gguf") for name in listed)
            else "leave files out: the architecture has its own list",
        )


def _is_rewritten(model: Model, weights: Weights, name: str) -> bool:
    return isinstance(model, Encoder) and weights.fetch_on == "host" and name.rsplit("/", 1)[-1] == "pytorch_model.bin"


def _two_sources(server: Server, model: Model, where: str) -> Refusal:
    return refuse(
        "same-model-two-weights",
        f"two servers of one host have different weights with the name {model.name}",
        where=model_at(server.name, model.name, "weights"),
        seen=f"others than in server {where}",
        wanted="one name for one set of files: the model's name is their directory",
        attempt=f'name="{model.name}-2"',
    )


def _repository(model: Model) -> str:
    known = CHECKPOINTS.get(model.checkpoint) if isinstance(model.checkpoint, str) else None
    return known.repository if known else "OWNER/NAME"
