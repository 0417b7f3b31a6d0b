"""The verb `enginehouse bundle`: everything that hosts without a network fetch, in one signed directory."""

from pathlib import Path

import click

from deploy.cli.knobs import knobs
from deploy.cli.ranges import Whole
from deploy.io.inventory import host_data, load_plan
from deploy.io.printing import refusals_shown, say

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command(
    short_help="Bundle everything that hosts without a network fetch.",
    epilog="Example: enginehouse bundle inventories/h100.py /media/disk/bundle --kernel debian-12=6.1.0-28-amd64",
)
@click.argument("inventory")
@click.argument("directory", type=FOLDER)
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to bundle for.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
@click.option("--kernel", "kernels", multiple=True, metavar="OS=KERNEL", help="A kernel that hosts run (uname -r).")
@click.option("--base", type=FOLDER, help="An earlier bundle; only parts that it lacks are written.")
@click.option("--split", type=Whole(0, 1_048_576), default=0, metavar="MIB", help="Largest size of a file.")
@click.option("--verify", is_flag=True, help="Only verify a bundle: its signature and every byte.")
@click.option("--unpack", type=FOLDER, help="Only unpack the control machine's part into this folder.")
def bundle(
    inventory: str,
    directory: Path,
    limit: tuple[str, ...],
    data: tuple[str, ...],
    kernels: tuple[str, ...],
    base: Path | None,
    split: int,
    verify: bool,
    unpack: Path | None,
) -> None:
    """Fetch everything that the hosts of INVENTORY install and serve into DIRECTORY, and sign the list of it.

    The bundle has packages with their dependencies, images and models byte for byte, this repository and its Python
    packages. Sizes are printed first. After an interruption the same command continues. A host with `connected=False`
    takes its parts from here.
    """
    from deploy.io.bundle import made, unpacked, verified

    with refusals_shown(inventory, False):
        plan = load_plan(inventory, (*data, "connected=true"), limit, knobs())
        if verify or unpack:
            contents = verified(plan, directory, say)
            if unpack:
                unpacked(directory, contents, unpack, say)
        else:
            from roles.bundle_needs import needs, wheels

            wanted = needs(
                (*plan.slices, *plan.balancers, *plan.monitors), host_data(inventory, data), _by_system(kernels)
            )
            made(plan, wanted, wheels(plan.slices), directory, base, split, say)


def _by_system(words: tuple[str, ...]) -> dict[str, list[str]]:
    """The kernels named on the command line, by OS."""
    named = dict[str, list[str]]()
    for word in words:
        os, is_split, kernel = word.partition("=")
        if not is_split or not kernel:
            raise click.BadParameter(f"{word}: OS=KERNEL, for example debian-12=6.1.0-28-amd64", param_hint="--kernel")
        named.setdefault(os, []).append(kernel)
    return named
