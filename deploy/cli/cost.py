"""The verb `enginehouse cost`: its options. `deploy.io.cost` does the work and is imported only when the verb runs."""

import json
from pathlib import Path
from typing import Any

import click

from deploy.cli.knobs import knobs
from deploy.cli.ranges import Number
from deploy.io.inventory import load_plan
from deploy.io.printing import refusals_shown, say, show

FILE = click.Path(path_type=Path)


@click.command(
    short_help="Say what tokens and documents cost, in dollars.",
    epilog="Example: enginehouse cost inventories/h100.py --per-hour 2.49 --bench bench.json",
)
@click.argument("inventory")
@click.option("--per-hour", multiple=True, help="Dollars per GPU hour: 2.49, or for one card: h100=2.49.")
@click.option("--prices", type=FILE, help='JSON: {"date", "source", "per_hour": {CARD: $}, "spot_per_hour": {…}}.')
@click.option("--bench", multiple=True, type=FILE, help="A bench result, for the cost of a unit at saturation.")
@click.option(
    "--from-prometheus", default="", metavar="URL", help="Prometheus, for the cost of a unit at the real load."
)
@click.option("--window", default="30d", show_default=True, help="Period that Prometheus is queried for.")
@click.option("--audit", type=FILE, help="Audit lines of the gateways in that window, for costs by tenant.")
@click.option(
    "--by", default="model", show_default=True, help="Group by tenant, model or engine; commas separate several."
)
@click.option(
    "--output-weight",
    type=Number(0, 1000),
    default=4.0,
    show_default=True,
    help="Number of input tokens that cost as much as an output token.",
)
@click.option("--utilisation", type=Number(1, 100), help="Percent of the day under load; for --bench.")
@click.option(
    "--spot-per-hour", multiple=True, help="As --per-hour, for spot machines, which the provider may reclaim."
)
@click.option("--interruptions-per-day", type=Number(0, 1440), help="Interruptions of one spot host.")
@click.option(
    "--boot-seconds",
    type=Number(0, 86_400),
    default=0.0,
    help="Seconds from an interruption to a new machine with SSH.",
)
@click.option(
    "--fetch-mib-s",
    type=Number(0, 1_000_000),
    default=0.0,
    help="Speed of your network; default: that of the recorded deploy.",
)
@click.option("--deploy-record", type=FILE, help="A recorded deploy; else benchmarks/results/h100-deploy.json.")
@click.option(
    "--build-minutes", type=Number(0, 10_080), default=0.0, help="Minutes to build one engine: once, or on every host."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
def cost(inventory: str, as_json: bool, data: tuple[str, ...], **options: Any) -> None:
    """Print the monthly cost of INVENTORY, and its cost of a million tokens or a thousand documents.

    No price is built in: type yours, or keep them in a file with a date. Asks no host.
    """
    from deploy.io.cost import cost_asked

    with refusals_shown(inventory, as_json):
        costs = cost_asked(load_plan(inventory, data, (), knobs()), options)
        if as_json:
            say(json.dumps(costs.to_json(), indent=2, ensure_ascii=False))
        else:
            from deploy.cost.report import cost_report

            show(cost_report(costs))
