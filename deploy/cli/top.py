"""The verb `enginehouse top`: its options, and the interval between its readings."""

import json
import time

import click

from deploy.cli.knobs import knobs
from deploy.cli.ranges import Number
from deploy.io.inventory import host_data, load_plan
from deploy.io.printing import Visible, console, refusals_shown, say, show


@click.command(
    short_help="Show hosts, servers, tokens a second, queues, watts and alerts.",
    epilog="Example: enginehouse top inventories/h100.py --once",
)
@click.argument("inventory")
@click.option("--once", is_flag=True, help="Show the state once, and exit.")
@click.option("--json", "as_json", is_flag=True, help="JSON for programs; implies --once.")
@click.option("--every", type=Number(1, 3600), default=5.0, show_default=True, help="Seconds between two updates.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to show.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
def top(inventory: str, once: bool, as_json: bool, every: float, limit: tuple[str, ...], data: tuple[str, ...]) -> None:
    """Show the activity of the hosts of INVENTORY until Ctrl-C. Changes nothing.

    Reads the Prometheus of the inventory's monitor; without a monitor, each host over ssh.
    """
    from dataclasses import replace

    from deploy.io.top import source_of
    from deploy.monitoring.top import table

    with refusals_shown(inventory, as_json):
        whole = load_plan(inventory, data, (), knobs())
        shown = replace(load_plan(inventory, data, limit, knobs()), monitors=whole.monitors)
        look = source_of(shown, host_data(inventory, data))
        if as_json:
            say(json.dumps(look().to_json(), indent=2, ensure_ascii=False))
        elif once:
            show(table(look()))
        else:
            from rich.live import Live

            with Live(Visible(table(look())), console=console(), screen=True, auto_refresh=False) as live:
                try:
                    while True:
                        time.sleep(every)
                        live.update(Visible(table(look())), refresh=True)
                except KeyboardInterrupt:
                    return
