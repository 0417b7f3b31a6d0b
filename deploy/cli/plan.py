"""The verb `enginehouse plan`: the wanted state of every host, and its digest."""

import json

import click

from deploy.cli.knobs import knobs
from deploy.io.inventory import load_plan
from deploy.io.printing import refusals_shown, say, show


@click.command(
    short_help="Print what every host is to become, and a digest of it.",
    epilog="Example: enginehouse plan inventories/h100.py",
)
@click.argument("inventory")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to show; the digest covers all hosts.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
def plan(inventory: str, as_json: bool, limit: tuple[str, ...], data: tuple[str, ...]) -> None:
    """Print the plan of INVENTORY and its digest, or every reason why there is none."""
    with refusals_shown(inventory, as_json):
        loaded_plan = load_plan(inventory, data, limit, knobs())
        if as_json:
            say(json.dumps(loaded_plan.to_json(), indent=2, ensure_ascii=False))
        else:
            from deploy.reports.plan import plan_report

            show(plan_report(loaded_plan))
