"""Engines that a farm host builds for other hosts: all that its card and its image can build."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from deploy.models.files import disk_needed_mib
from deploy.slices.host import EngineSlice, Slice


def with_farm_engines(slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """The plan's slices; a farm host's also has the engines it builds for other hosts, and the files these read."""
    return tuple(_with_engines(host_slice, slices) if host_slice.farm else host_slice for host_slice in slices)


def _with_engines(mine: Slice, slices: Iterable[Slice]) -> Slice:
    fitting = {engine.path: engine for host_slice in slices for engine in _fitting(mine, host_slice)}
    engines = tuple(_moved(mine, engine) for engine in (*mine.engines, *fitting.values()))
    engines = tuple({engine.path: engine for engine in engines}.values())
    read = [*mine.weights, *(weights for engine in engines for weights in engine.weights)]
    weights = tuple({(checkpoint.model, checkpoint.revision): checkpoint for checkpoint in read}.values())
    needed = disk_needed_mib(mine.image, weights, ((engine.size_mib, engine.scratch_mib) for engine in engines))
    return replace(mine, engines=engines, weights=weights, disk_needed_mib=needed)


def _fitting(mine: Slice, owner: Slice) -> Iterator[EngineSlice]:
    """Engines of another host that this one can build: same card, same image, enough GPUs."""
    same = (mine.machine.gpu, mine.mig, mine.image) == (owner.machine.gpu, owner.mig, owner.image)
    for engine in owner.engines if same else ():
        if engine.world_size <= mine.machine.gpus * max(len(mine.mig), 1):
            yield engine


def _moved(mine: Slice, engine: EngineSlice) -> EngineSlice:
    """`engine`, moved to the first GPUs of the host `mine`."""
    gpus = tuple(range(engine.world_size))
    cut = len(mine.mig)
    names = (f"{gpu // cut}:{gpu % cut}" if cut else str(gpu) for gpu in gpus)
    return replace(engine, gpus=gpus, devices=tuple(f"nvidia.com/gpu={name}" for name in names))
