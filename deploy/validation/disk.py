"""Judges whether the declared disk has room for image, weights and engines. Preflight asks the machine itself."""

from collections.abc import Iterator
from dataclasses import replace

from deploy.engine.recipe import recipes_of
from deploy.engine.sizes import engine_mib, scratch_mib
from deploy.models.budget import is_compiled
from deploy.models.files import (
    HEADROOM_MIB,
    all_weights_of,
    disk_needed_mib,
    distinct_images,
    fetched,
    image_copies,
    shared_directories,
)
from deploy.models.resolve import image_of, release_row, serve
from deploy.models.runtimes import image_of_runtime, row_of_image
from deploy.refusals import Refusal, refuse
from deploy.spec import LLM, Host
from deploy.spec.surroundings import Surroundings


def disk_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    """The refusal of a declared disk that is too small; empty if the inventory declares no disk."""
    row = release_row(host.release)
    if row is None or not host.machine.disk_mib or host.machine.data_disk:
        return
    image = image_of(host, row)
    served_models = [(server, serve(model, surroundings)) for server, model in host.served_models]
    directories = shared_directories(served for _server, served in served_models if served)
    checkpoints = [
        weights
        for _server, served in served_models
        if served
        for weights in fetched(all_weights_of(replace(served, directories=directories)))
    ]
    weights = list({(checkpoint.model, checkpoint.revision): checkpoint for checkpoint in checkpoints}.values())
    engines = {
        recipe.model: (engine_mib(recipe, served), scratch_mib(recipe, served))
        for server, served in served_models
        if served and isinstance(served.model, LLM) and is_compiled(served, image.trtllm)
        for recipe in recipes_of(served, server, image.trtllm)
    }
    beside = {model.image: model for server in host.servers for model in server.standalone_llms}.values()
    rows = [(model, row_of_image(model)) for model in beside]
    more_images = [image_of_runtime(model, row) for model, row in rows if row]
    needed = disk_needed_mib(image, weights, engines.values(), more_images)
    if host.machine.disk_mib < needed:
        sizes = " · ".join(f"{checkpoint.model} {checkpoint.size_mib:,}" for checkpoint in weights)
        sizes += "".join(f" · engine {name} {size:,} (+{more:,})" for name, (size, more) in engines.items())
        pulled_images = distinct_images((image, *more_images))
        images = [f"image {image_copies(pulled)} x {pulled.size_mib:,}" for pulled in pulled_images]
        unpacked = f"{' · '.join(images)} while {'they unpack' if pulled_images[1:] else 'it unpacks'}"
        yield refuse(
            "disk-too-small",
            f"a disk of {host.machine.disk_mib:,} MiB is smaller than this host needs",
            where="machine.disk_mib",
            seen=f"{host.machine.disk_mib:,} MiB",
            wanted=f"{needed:,} MiB: {unpacked} · {sizes} · headroom {HEADROOM_MIB:,}",
            attempt='a larger disk, or a blank one: data_disk=DataDisk(device="/dev/disk/by-id/…")',
        )
