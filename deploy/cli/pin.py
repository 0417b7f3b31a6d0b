"""The verb `enginehouse pin`: locks the models of an inventory and writes the digests of its images."""

from pathlib import Path

import click

from deploy.cli.knobs import knobs
from deploy.io.inventory import load_plan
from deploy.io.printing import refusals_shown, say


@click.command(
    short_help="Lock the models and the image of an inventory.", epilog="Example: enginehouse pin inventories/h100.py"
)
@click.argument("inventory")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
@click.option("--models", "models_only", is_flag=True, help="Lock only the models; ask no registry.")
@click.option("--update", is_flag=True, help="Move locked models to what the hub has now.")
def pin(inventory: str, data: tuple[str, ...], models_only: bool, update: bool) -> None:
    """Lock the models that INVENTORY names in models.lock.json beside it, and write its images' digests into it.

    The hub is asked for commits, files, sizes and the headers of weights, never for weights; registries for digests.
    """
    from deploy.inventory.fleet import Fleet
    from deploy.io.inventory import load_inventory, override_data
    from deploy.io.pin import pinned, pinned_runtimes, write_digest, write_runtimes
    from deploy.io.pin_models import lock_models

    with refusals_shown(inventory, False):
        fleet = Fleet.of(load_inventory(inventory, override_data(data)), knobs())
        sentences = lock_models(Path(inventory), fleet, update=update)
        for sentence in sentences:
            say(sentence)
        if not models_only:
            loaded_plan = load_plan(inventory, data, knobs=knobs())
            say(write_runtimes(Path(inventory), pinned_runtimes(loaded_plan)), nl=False)
            say(write_digest(Path(inventory), pinned(loaded_plan)), nl=False)
        elif not sentences:
            say(f"{inventory} names no model that is not locked")
