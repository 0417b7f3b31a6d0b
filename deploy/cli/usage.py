"""The verb `enginehouse usage`: each caller's use of the gateways, and its cost."""

import json
import sys
from datetime import UTC, datetime, timedelta

import click

from deploy.cli.knobs import knobs
from deploy.cli.ranges import Day
from deploy.io.inventory import host_data, load_plan
from deploy.io.printing import refusals_shown, say, show

INCOMPLETE = 3


@click.command(
    short_help="Say who used how many requests and tokens, and the cost.",
    epilog="Example: enginehouse usage inventories/h100.py --by tenant,model --since 2026-11-01 --csv",
)
@click.argument("inventory")
@click.option("--by", default="tenant,model", show_default=True, help="Any of key, person, tenant, model, day: a,b.")
@click.option("--since", type=Day(["%Y-%m-%d"]), help="First day, UTC.  [default: 30 days ago]")
@click.option("--until", type=Day(["%Y-%m-%d"]), help="Last day, UTC.  [default: today]")
@click.option("--csv", "wants_csv", is_flag=True, help="For spreadsheets.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to ask.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
def usage(
    inventory: str,
    by: str,
    since: datetime | None,
    until: datetime | None,
    wants_csv: bool,
    as_json: bool,
    limit: tuple[str, ...],
    data: tuple[str, ...],
) -> None:
    """Add up requests, tokens, errors, cost and times that the gateways of INVENTORY counted. Changes nothing.

    The dearest line comes first, or each day's dearest with `--by day,…`. Each host keeps its own counters; the cost
    is by the `prices` of its Gateway at the time of a request. Ends with 3 if a host did not answer: its numbers are
    missing then.
    """
    from deploy.cost.usage import as_csv, groups_of, missing_sentences, table
    from deploy.io.usage import usage_of

    with refusals_shown(inventory, as_json):
        groups = groups_of(by)
        plan = load_plan(inventory, data, limit, knobs())
        first = f"{since or datetime.now(UTC) - timedelta(days=30):%Y-%m-%d}"
        last = f"{until:%Y-%m-%d}" if until else ""
        report = usage_of(plan, host_data(inventory, data), groups, first, last)
        if as_json:
            say(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
        elif wants_csv:
            say(as_csv(report), nl=False)
            for sentence in missing_sentences(report):
                say(sentence, err=True)
        else:
            show(table(report))
        sys.exit(INCOMPLETE if report.missing else 0)
