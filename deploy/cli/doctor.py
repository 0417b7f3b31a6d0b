"""The verb `enginehouse doctor`: faults of the hosts, and the commands that repair them."""

import sys

import click

from deploy.cli.knobs import knobs
from deploy.io.inventory import load_plan
from deploy.io.printing import refusals_shown, say


@click.command(
    short_help="Say what is wrong on the hosts, and what to type.",
    epilog="Example: enginehouse doctor inventories/h100.py",
)
@click.argument("inventory")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to examine.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
@click.option("--drift/--no-drift", default=True, show_default=True, help="Ask what the next deploy would do, too.")
def doctor(inventory: str, as_json: bool, limit: tuple[str, ...], data: tuple[str, ...], drift: bool) -> None:
    """Examine the hosts of INVENTORY, and change nothing.

    `--data report=FILE` writes the readings, without secrets, as an archive for a colleague or a vendor.

    Ends with 0 if all are healthy, with 2 if something is broken, with 3 if there are warnings only, and with
    1 if a host could not be asked.
    """
    from deploy.io.doctor import examined

    with refusals_shown(inventory, as_json):
        load_plan(inventory, data, limit, knobs())  # raises its refusals before any host is asked
        report = examined(inventory, data, limit, with_drift=drift)
        say(report.to_text() if as_json else str(report))
        sys.exit(report.exit_code)
