"""Whether the declared disk holds image and weights. The machine itself is asked by preflight."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.errors import Refusal
from deploy.files import HEADROOM_MIB, IMAGE_UNPACK_FACTOR, all_weights_of, disk_needed_mib
from deploy.refuse import refuse
from deploy.resolve import image_of, release_row, serve
from deploy.spec import Host
from deploy.surroundings import Surroundings


def disk_problems(host: Host, surroundings: Surroundings) -> Iterator[Refusal]:
    """The refusal of a declared disk that is too small; nothing where the inventory declares none."""
    row = release_row(host.release)
    if row is None or not host.machine.disk_mib or host.machine.data_disk:
        return
    models = (serve(model, surroundings) for server in host.servers for model in server.models)
    found = [weights for one in models if one for weights in all_weights_of(one)]
    weights = list({(one.model, one.revision): one for one in found}.values())
    image = image_of(host, row)
    needed = disk_needed_mib(image, weights)
    if host.machine.disk_mib < needed:
        sizes = " · ".join(f"{one.model} {one.size_mib:,}" for one in weights)
        unpacked = f"image {IMAGE_UNPACK_FACTOR} x {image.size_mib:,} while it unpacks"
        yield refuse(
            "disk-too-small",
            f"a disk of {host.machine.disk_mib:,} MiB holds less than this host needs",
            where="machine.disk_mib",
            seen=f"{host.machine.disk_mib:,} MiB",
            wanted=f"{needed:,} MiB: {unpacked} · {sizes} · headroom {HEADROOM_MIB:,}",
            attempt='a larger disk, or a blank one: data_disk=DataDisk(device="/dev/disk/by-id/…")',
        )
