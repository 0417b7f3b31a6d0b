"""The verb `enginehouse pin`: writes the digest of an image into an inventory."""

from __future__ import annotations

from pathlib import Path

import click

from deploy.cli.knobs import knobs
from deploy.io.inventory import load_plan
from deploy.io.shown import refusals_shown, say


@click.command(
    short_help="Write the digest of the image into an inventory.",
    epilog="Example: enginehouse pin inventories/h100.py",
)
@click.argument("inventory")
@click.option("--data", multiple=True, help="KEY=VALUE above what the inventory says.")
def pin(inventory: str, data: tuple[str, ...]) -> None:
    """Ask the registry for the digest of INVENTORY's image and write it into that file."""
    from deploy.io.pin import pinned, write_digest

    with refusals_shown(inventory, False):
        loaded_plan = load_plan(inventory, data, knobs=knobs())
        say(write_digest(Path(inventory), pinned(loaded_plan)), nl=False)
