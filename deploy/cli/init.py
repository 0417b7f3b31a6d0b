"""The verb `enginehouse init`: an inventory made of the machines' own facts."""

from pathlib import Path

import click

from deploy.io.printing import refusals_shown, say


@click.command(
    short_help="Write an inventory for machines, from their own answers.",
    epilog="Example: enginehouse init ubuntu@203.0.113.7:2222",
)
@click.argument("targets", metavar="USER@HOST[:PORT]...", nargs=-1, required=True)
@click.option("--balancer", multiple=True, metavar="USER@HOST", help="A machine without GPU that is to run HAProxy.")
@click.option("--monitor", multiple=True, metavar="USER@HOST", help="A machine without GPU that is to run Prometheus.")
@click.option("--model", "models", multiple=True, metavar="OWNER/NAME", help="A model to serve; may be repeated.")
def init(
    targets: tuple[str, ...], balancer: tuple[str, ...], monitor: tuple[str, ...], models: tuple[str, ...]
) -> None:
    """Ask machines over ssh for their hardware, and write inventories/MACHINE.py. Equal machines become a group.

    An existing file is kept. The last line of the output names the new file and the next command.

    A model is a name of the hub or of the catalog, or a directory; the hub is asked for each model's kind. A mirror in
    HF_ENDPOINT is asked instead, and becomes the hub of the inventory.
    """
    from deploy.inventory.first_inventory import inventory_text
    from deploy.inventory.targets import Target
    from deploy.io.fit_models import named_models
    from deploy.io.init import ask_all, write_inventory
    from deploy.io.pin_models import mirror_from_environment

    with refusals_shown("", False):
        serving, *apart = ([Target.of(text) for text in dict.fromkeys(texts)] for texts in (targets, balancer, monitor))
        named = named_models(models)
        machines, outside = ask_all(serving, [*apart[0], *apart[1]])
        apart_of = outside[: len(apart[0])], outside[len(apart[0]) :]
        text = inventory_text(machines, *apart_of, named, mirror_from_environment())
        file = write_inventory(Path("inventories"), [*serving, *apart[0], *apart[1]], text)
        pin = f"enginehouse pin {file}, and " if models else ""
        say(f"wrote {file}; read it, then: {pin}enginehouse plan {file}")
