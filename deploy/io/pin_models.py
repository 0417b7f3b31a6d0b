"""Locks the models of an inventory: asks the hub about each name and writes `models.lock.json` beside the inventory."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from deploy.inventory.fleet import Fleet
from deploy.io.hub import Access, resolve
from deploy.io.local_paths import local_path
from deploy.io.model_lock import add_entry, entry_of, lock_of, read_entries
from deploy.io.secrets import read
from deploy.models.names import catalogued, is_named
from deploy.models.resolve import sources_of
from deploy.refusals import Refusal, refuse_all
from deploy.spec import Checkpoint, Hub, Model
from deploy.spec.sources import HUB_NAME

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+@[0-9a-f]{40}", re.ASCII)
"""A repository at a commit, the only source that can be compared with typed numbers."""


def lock_models(inventory: Path, fleet: Fleet, *, update: bool = False) -> list[str]:
    """A sentence for each locked model of the fleet; the lock is written after each model, so that a rerun can resume.

    An existing entry is kept, unless `update` asks for the hub's current state. A repository whose numbers are typed in
    the inventory is locked for comparison only: if the hub refuses it, a sentence reports that. Raises: every other
    refusal of the hub, after all other models are locked.
    """
    file, refusals, sentences = lock_of(inventory), list[Refusal](), list[str]()
    entries = read_entries(file)
    for source, (hub, is_typed) in sorted(_sources(fleet).items(), key=lambda pair: pair[0]):
        if source in entries and not update:
            continue
        try:
            resolved = resolve(source, access_of(hub))
        except Refusal as refusal:
            if is_typed:
                sentences.append(f"{source} is not locked, so its typed numbers are not compared: {refusal.problem}")
            else:
                refusals.append(refusal)
            continue
        entry = entry_of(resolved)
        word = "locked" if source not in entries else "unchanged" if entries[source] == entry else "moved"
        entries[source] = entry
        add_entry(file, source, entry)
        size = f"{sum(resolved.sizes.values()) / 1e9:.1f} GB"
        sentence = f"{source} {word} at {entry['commit'][:12]}, {len(resolved.sizes)} files, {size} ({file})"
        renamed = resolved.name != entry["repository"] and HUB_NAME.fullmatch(resolved.name)
        sentences.append(f"{sentence}; its name on the hub is {resolved.name} now" if renamed else sentence)
    refuse_all(refusals)
    return sentences


def access_of(hub: Hub) -> Access:
    return Access(
        endpoint=hub.endpoint,
        token=read(hub.token) if hub.token else "",
        ca_file=str(local_path(hub.ca_file, Path())) if hub.ca_file else "",
    )


def access_from_environment() -> Access:
    """The hub access of a command without an inventory: HF_ENDPOINT and HF_TOKEN, as the hub's client reads them."""
    return Access(
        endpoint=os.environ.get("HF_ENDPOINT") or Access.endpoint,
        token=os.environ.get("HF_TOKEN", ""),
        ca_file=os.environ.get("SSL_CERT_FILE", ""),
    )


def mirror_from_environment() -> str:
    """The hub in HF_ENDPOINT; empty for the public one."""
    endpoint = access_from_environment().endpoint.rstrip("/")
    return "" if endpoint == Access.endpoint else endpoint


def _sources(fleet: Fleet) -> dict[str, tuple[Hub, bool]]:
    """The hub names to lock, each with the hub of the first host that names it; True if its numbers are typed."""
    hubs: dict[str, tuple[Hub, bool]] = {}
    for host in fleet.hosts:
        for _, model in host.served_models:
            for source, is_typed in _sources_of(model):
                hubs.setdefault(source, (host.hub, is_typed))
    return hubs


def _sources_of(model: Model) -> Iterator[tuple[str, bool]]:
    if is_named(model):
        if HUB_NAME.fullmatch(model.source) and not catalogued(model.source):
            yield model.source, False
    elif isinstance(model.checkpoint, Checkpoint):
        place, weights = sources_of(model)[0]
        if place == "weights" and REPOSITORY.fullmatch(f"{weights.repository}@{weights.revision}"):
            yield f"{weights.repository}@{weights.revision}", True
