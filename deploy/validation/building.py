"""Judges whether an engine can be built on its planned host: calibration needs more memory than serving.

An engine may fit a card that its 16-bit checkpoint does not; then no host can build it for that card, because a farm
host builds on the same card (`deploy.engine.farm`). A farm host can have more host memory.
"""

from collections.abc import Iterator

from deploy.catalog import GPU, PRECISIONS
from deploy.engine.recipe import Recipe, recipes_of
from deploy.engine.sizes import build_gpu_mib, build_host_mib
from deploy.inventory.fleet import Fleet
from deploy.models.budget import is_compiled
from deploy.models.resolve import Served, gpu_of, image_of, release_row, serve
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Host, Server
from deploy.spec.surroundings import Surroundings


def building_problems(host: Host, fleet: Fleet, surroundings: Surroundings) -> Iterator[Refusal]:
    """A refusal for each engine that neither its host nor a farm host with the same card has the memory to build."""
    row = release_row(host.release)
    trtllm = image_of(host, row).trtllm if row else ""
    for server in host.servers:
        gpu = gpu_of(host, server)
        for model in server.models:
            served = serve(model, surroundings)
            if served and gpu and server.gpus and trtllm and isinstance(model, LLM) and is_compiled(served, trtllm):
                for recipe in recipes_of(served, server, trtllm):
                    yield from _on_gpu(recipe, served, server, gpu, host)
                    yield from _on_host(recipe, served, host, fleet)


def _on_gpu(recipe: Recipe, served: Served, server: Server, gpu: GPU, host: Host) -> Iterator[Refusal]:
    if not (PRECISIONS[recipe.precision].calibrated or recipe.kv_dtype in ("fp8", "int8")):
        return  # converted on the CPU, which needs less GPU memory than serving
    wanted, world = build_gpu_mib(recipe, served), recipe.layout.world
    if wanted <= gpu.usable_mib:
        return
    yield refuse(
        "build-beyond-gpu",
        f"{recipe.model}: building its engine needs {wanted:,} MiB on each GPU; {gpu.title} has {gpu.usable_mib:,}",
        where=model_at(server.name, served.model.name, "path"),
        seen=f"{recipe.precision} from 16-bit weights on {world} GPU{'s' if world > 1 else ''}",
        wanted=f"GPUs with {wanted:,} MiB each for the conversion; an engine has to be built on the card that "
        "serves it",
        attempt=f"{_more_gpus(2 * world, host)}, or a checkpoint that is published in this precision",
    )


def _more_gpus(count: int, host: Host) -> str:
    return f"gpus={tuple(range(count))}" if count <= host.machine.gpus else f"a machine with {count} of these GPUs"


def _on_host(recipe: Recipe, served: Served, host: Host, fleet: Fleet) -> Iterator[Refusal]:
    wanted, declared = build_host_mib(recipe, served), host.machine.memory_mib
    if not declared or wanted <= declared or any(_builds_for(builder, host, wanted) for builder in fleet.hosts):
        return
    yield refuse(
        "build-beyond-host",
        f"{recipe.model}: building its engine needs {wanted:,} MiB of host memory, and this host has {declared:,}",
        where="machine.memory_mib",
        seen=f"{declared:,} MiB",
        wanted=f"{wanted:,} MiB, most of it the weights while they are converted",
        attempt="a host with more memory, or a farm host with the same card, MIG cut and release",
    )


def _builds_for(farm: Host, host: Host, memory_mib: int) -> bool:
    """True if `farm` is a farm host whose engines run on `host`, with at least `memory_mib` MiB of memory."""
    mine, row = release_row(farm.release), release_row(host.release)
    alike = (farm.machine.gpu, farm.machine.mig) == (host.machine.gpu, host.machine.mig)
    same = alike and mine is not None and row is not None and image_of(farm, mine) == image_of(host, row)
    return farm.farm and same and (not farm.machine.memory_mib or farm.machine.memory_mib >= memory_mib)
