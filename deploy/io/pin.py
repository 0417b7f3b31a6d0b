"""Pins the image of an inventory: asks the registry for the digest and writes it into the inventory's own file."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from deploy.io.registry import Login, digest_of
from deploy.io.secrets import read
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LINE = re.compile(r"""(["']image_digest["']\s*:\s*|\bimage_digest\s*=\s*)(["'])([^"']*)\2""")


def pinned(plan: Plan) -> str:
    """The digest the registry has for the plan's one image; refused where hosts run different ones."""
    images = {slice_.image.reference: slice_ for slice_ in plan.slices}
    if len(images) > 1:
        raise _several_images(sorted(images))
    slice_ = next(iter(images.values()))
    key = read(slice_.registry.key) if slice_.registry.key else ""
    login = Login(username=slice_.registry.username, key=key, ca_file=slice_.registry.ca_file)
    return digest_of(slice_.image.reference, login)


def write_digest(inventory: Path, digest: str) -> str:
    """The change as a diff, already written; one sentence where the file has this digest already."""
    assert DIGEST.fullmatch(digest), "what goes into a file that Python runs is a digest and nothing else"
    before = inventory.read_text("utf-8")
    if len(LINE.findall(before)) != 1:
        raise _no_single_place(inventory, digest, len(LINE.findall(before)))
    after = LINE.sub(lambda match: f"{match[1]}{match[2]}{digest}{match[2]}", before)
    if after == before:
        return f"{inventory} is pinned to {digest} already\n"
    inventory.write_text(after, "utf-8")
    changes = difflib.unified_diff(before.splitlines(True), after.splitlines(True), str(inventory), str(inventory))
    return "".join(changes)


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
