"""The verb `enginehouse monitoring`: alert rules and dashboards of a fleet."""

from pathlib import Path

import click

from deploy.cli.knobs import knobs
from deploy.io.inventory import load_plan
from deploy.io.printing import refusals_shown, say


@click.command(
    short_help="Write alert rules and dashboards of a fleet.",
    epilog="Example: enginehouse monitoring inventories/h100.py /tmp/monitoring",
)
@click.argument("inventory")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
def monitoring(inventory: str, folder: Path, data: tuple[str, ...]) -> None:
    """Write to FOLDER: alert rules for Prometheus 2.42 and later, and dashboards for Grafana.

    Touches no host. Prints the files, and the job and targets that your Prometheus has to scrape.
    """
    from deploy.io.monitoring import jobs, written

    with refusals_shown(inventory, False):
        for path in written(load_plan(inventory, data, (), knobs()), inventory, folder):
            say(f"wrote {path}")
        say("\n".join(["jobs of the scrape configuration:", *jobs()]))
