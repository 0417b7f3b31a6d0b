"""Refusals of models that an inventory declares by name, where nothing is known about the name."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.catalog import CHECKPOINTS
from deploy.catalog.names import nearest
from deploy.models.names import is_named, shape_named
from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import model_at, refuse
from deploy.spec import Host, Model
from deploy.spec.sources import DIRECTORY, HUB_NAME
from deploy.spec.surroundings import Surroundings


def name_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each named model of one host that has no numbers yet; one that has them is named no more."""
    for server in host.servers:
        for model in server.models:
            if is_named(model):
                place = model_at(server.name, model.name, "source")
                yield _unknown(model, place, surroundings)


def _unknown(model: Model, place: str, surroundings: Surroundings) -> Refusal:
    if DIRECTORY.fullmatch(model.source):
        return _of_directory(model, place, surroundings)
    if not HUB_NAME.fullmatch(model.source):
        return _no_name(model, place)
    if model.source not in surroundings.locked:
        return refuse(
            "unpinned-model",
            f"{model.name}: {model.source} is not in the lock, so nobody knows its files and its size",
            where=place,
            seen=f'{type(model).__name__}("{model.source}")' + _locked(surroundings),
            wanted="an entry of models.lock.json beside the inventory: commit, files, sizes, numbers of config.json",
            attempt=f"enginehouse pin {surroundings.inventory or 'INVENTORY'}",
        )
    return _refused(model, place, surroundings)


def _refused(model: Model, place: str, surroundings: Surroundings) -> Refusal:
    """The reason why files that are known give no numbers."""
    try:
        shape_named(model, surroundings)
    except Refusal as problem:
        return problem
    return refuse(
        "config-json",
        f"{model.name}: {model.source} has no config.json that could be read",
        where=place,
        seen="no config.json",
        wanted="config.json beside the safetensors files",
        attempt="the directory of a transformers checkpoint, or a hub name",
    )


def _of_directory(model: Model, place: str, surroundings: Surroundings) -> Refusal:
    if model.source in surroundings.local:
        return _refused(model, place, surroundings)
    return refuse(
        "no-local-weights",
        f"{model.name}: no safetensors files in {model.source} on this machine",
        where=place,
        seen="nothing that ends in .safetensors",
        wanted="config.json and safetensors files, relative to where the command is typed",
        attempt=f'put them there, or a hub name: {type(model).__name__}("OWNER/NAME")',
    )


def _no_name(model: Model, place: str) -> Refusal:
    row = CHECKPOINTS.get(nearest(model.source, CHECKPOINTS))
    example = row.repository if row else "Qwen/Qwen3-8B"
    return refuse(
        "no-hub-name",
        f"{model.source!r} names neither a repository of a model hub nor a directory",
        where=place,
        seen=f"{type(model).__name__}({model.source!r})",
        wanted="owner/name, and after @ a commit, tag or branch; or a directory that begins with ./ or /",
        attempt=f'{type(model).__name__}("{example}")',
    )


def _locked(surroundings: Surroundings) -> str:
    names = sorted(surroundings.locked)
    if not names:
        return "; there is no lock"
    return f"; locked: {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
