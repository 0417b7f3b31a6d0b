"""The verb `enginehouse drift`: the hosts that differ from the inventory."""

import json
import sys

import click

from deploy.cli.knobs import knobs
from deploy.io.inventory import load_plan
from deploy.io.printing import refusals_shown, say


@click.command(
    short_help="Say which hosts are not as the inventory says.",
    epilog="Example: enginehouse drift inventories/h100.py && echo nothing to do",
)
@click.argument("inventory")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to compare.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
def drift(inventory: str, as_json: bool, limit: tuple[str, ...], data: tuple[str, ...]) -> None:
    """List what deploy.py would change on the hosts of INVENTORY, and change nothing.

    Ends with 0 if nothing differs, with 2 if something does, and with 1 if a host could not be asked.
    Known security holes of installed versions are warnings and do not change the exit status.
    """
    from deploy.io.doctor import drift_with_holes

    with refusals_shown(inventory, as_json):
        load_plan(inventory, data, limit, knobs())  # raises its refusals before any host is asked
        differences = drift_with_holes(inventory, data, limit)
        say(json.dumps(differences.to_json(), indent=2, ensure_ascii=False) if as_json else str(differences))
        sys.exit(differences.exit_code)
