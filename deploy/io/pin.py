"""Pins the images of an inventory: asks registries for digests and writes them into the inventory's own file."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from deploy.io.local_paths import turn
from deploy.io.registry import Login, digest_of
from deploy.io.secrets import read
from deploy.planning.plan import Plan
from deploy.refusals import Refusal, refuse
from deploy.slices.host import Slice

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LINE = re.compile(r"""(["']image_digest["']\s*:\s*|\bimage_digest\s*=\s*)(["'])([^"']*)\2""")


def pinned(plan: Plan) -> str:
    """The digest that the registry has for the plan's one image. Raises: a Refusal if hosts run different ones."""
    images = {slice_.image.reference: slice_ for slice_ in plan.slices}
    if len(images) > 1:
        raise _several_images(sorted(images))
    slice_ = next(iter(images.values()))
    return digest_of(slice_.image.reference, _login(slice_, slice_.image.reference))


def pinned_runtimes(plan: Plan) -> dict[str, str]:
    """The digests that registries have for images of LLMs beside Triton, by `name:tag`."""
    images = {image.reference: slice_ for slice_ in plan.slices for image in slice_.runtime_images}
    return {reference: digest_of(reference, _login(slice_, reference)) for reference, slice_ in sorted(images.items())}


def _login(slice_: Slice, reference: str) -> Login:
    """The host's login if it is for the registry of the image; else no login."""
    registry = slice_.registry_of(reference)
    key = read(registry.key) if registry.key else ""
    return Login(username=registry.username, key=key, ca_file=registry.ca_file)


def write_runtimes(inventory: Path, digests: Mapping[str, str]) -> str:
    """The change as a diff, after writing it: each image's text in quotes gets its digest."""
    assert all(map(DIGEST.fullmatch, digests.values())), "only a digest goes into a file that Python runs"
    with turn(inventory.resolve().parent):
        before = after = inventory.read_text("utf-8")
        for reference, digest in digests.items():
            place = re.compile(rf"""(["']){re.escape(reference)}(?:@sha256:[0-9a-f]{{64}})?\1""")
            if not place.search(after):
                raise _no_text(inventory, reference, digest)
            after = place.sub(rf"\g<1>{reference}@{digest}\g<1>", after)
        if after == before:
            return "".join(f"{reference} is pinned to {digest} already\n" for reference, digest in digests.items())
        inventory.write_text(after, "utf-8")
    return _diff(inventory, before, after)


def write_digest(inventory: Path, digest: str) -> str:
    """The change as a diff, after writing it; one sentence if the file already has this digest."""
    assert DIGEST.fullmatch(digest), "only a digest goes into a file that Python runs"
    with turn(inventory.resolve().parent):
        before = inventory.read_text("utf-8")
        if len(LINE.findall(before)) != 1:
            raise _no_single_place(inventory, digest, len(LINE.findall(before)))
        after = LINE.sub(lambda match: f"{match[1]}{match[2]}{digest}{match[2]}", before)
        if after == before:
            return f"{inventory} is pinned to {digest} already\n"
        inventory.write_text(after, "utf-8")
    return _diff(inventory, before, after)


def _diff(inventory: Path, before: str, after: str) -> str:
    changes = difflib.unified_diff(before.splitlines(True), after.splitlines(True), str(inventory), str(inventory))
    return "".join(changes)


def _no_text(inventory: Path, reference: str, digest: str) -> Refusal:
    return refuse(
        "no-place-for-digest",
        f"{inventory} does not have the image {reference} as a separate string",
        where=str(inventory),
        seen="no such text in quotes",
        wanted="the whole image in quotes, where the digest is put behind it",
        attempt=f'image="{reference}@{digest}"',
    )


def _several_images(references: list[str]) -> Refusal:
    return refuse(
        "several-images",
        "the hosts of this inventory run different images, and one digest cannot pin them",
        where="image_digest",
        seen=", ".join(references),
        wanted="one image, or an inventory file for each",
        attempt="give every group of hosts its own inventory file, or Release(…, digest=…)",
    )


def _no_single_place(inventory: Path, digest: str, count: int) -> Refusal:
    return refuse(
        "no-place-for-digest",
        f"{inventory} has {count} places for an image digest, and one is needed",
        where=str(inventory),
        seen=f"{count} times image_digest with a text in quotes",
        wanted="one",
        attempt=f'add "image_digest": "{digest}" to the data of the group',
    )
