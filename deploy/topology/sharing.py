"""Sharing: files that at least two hosts of the plan need and share, and that are public.

A set of files is a model's, or the blobs of a pinned image.

Pure: both sides compute the same hosts and ports.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from deploy.slices.host import Slice
from deploy.slices.sharing import PeerSlice, SharedSlice, SharingSlice
from deploy.spec import LLM, Host, Lookahead, Weights
from deploy.topology.balancing import address_of

Files = tuple[str, str, tuple[str, ...], str]
"""A set of files that hosts have in common, however it is fetched: name, revision, patterns, and source."""


def with_sharing(slices: Sequence[Slice], hosts: Iterable[Host]) -> tuple[Slice, ...]:
    """The slices, each with the files that its host shares; a host without common files shares no files."""
    known = list(hosts)
    declared = {host.name: host for host in known if host.sharing}
    private = private_sources(known)
    wanting = _wanting([slice_ for slice_ in slices if slice_.host in declared], private)
    numbers = {files: number for number, files in enumerate(sorted(wanting))}
    return tuple(_with(slice_, declared, wanting, numbers) for slice_ in slices)


def all_weights(host: Host) -> Iterator[tuple[str, Weights]]:
    for _, model in host.served_models:
        yield model.name, model.weights
        if isinstance(model, LLM):
            if model.speculative is not None and not isinstance(model.speculative, Lookahead):
                yield model.name, model.speculative.weights
            yield from ((model.name, adapter.weights) for adapter in (model.lora.adapters if model.lora else ()))


def private_sources(hosts: Iterable[Host]) -> set[tuple[str, str, str]]:
    """(repository, revision, directory) of files that are never shared; private on one host is private on all."""
    return {
        (weights.repository, weights.revision, weights.directory)
        for host in hosts
        for _name, weights in all_weights(host)
        if weights.private
    }


def _wanting(slices: Iterable[Slice], private: set[tuple[str, str, str]]) -> dict[Files, list[str]]:
    """The hosts that need each set of files, for sets that several hosts need."""
    owners: dict[Files, list[str]] = {}
    for slice_ in slices:
        for files in _sets(slice_, private):
            owners.setdefault(files, []).append(slice_.host)
    return {files: names for files, names in owners.items() if len(names) > 1}


def _sets(mine: Slice, private: Collection[tuple[str, str, str]] = ()) -> Iterator[Files]:
    """All files that a host may share, in the order of its plan; the image last."""
    for weights in mine.weights:
        revision = weights.revision if weights.repository else ""
        if (weights.repository, revision, weights.directory) not in private:
            yield weights.model, weights.revision, weights.files, weights.repository or weights.directory
    if mine.image.shared_port:
        yield mine.image.files_name, mine.image.digest, (), ""


def _with(mine: Slice, declared: dict[str, Host], wanting: dict[Files, list[str]], numbers: dict[Files, int]) -> Slice:
    if mine.host not in declared:
        return mine
    shared = []
    for files in _sets(mine):
        if files not in wanting:
            continue
        places = {name: _place(declared[name], numbers[files]) for name in wanting[files]}
        here = places.pop(mine.host)
        shared.append(
            SharedSlice(
                model=files[0],
                revision=files[1],
                port=int(here.rpartition(":")[2]),
                here=here,
                peers=tuple(PeerSlice(host=name, place=place) for name, place in sorted(places.items())),
            )
        )
    if not shared:
        return mine
    return replace(mine, sharing=SharingSlice(address=address_of(declared[mine.host]), files=tuple(shared)))


def _place(host: Host, number: int) -> str:
    address = address_of(host)
    assert host.sharing
    return f"{f'[{address}]' if ':' in address else address}:{host.sharing.port + number}"
