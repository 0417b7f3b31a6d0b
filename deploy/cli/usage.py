"""The verb `enginehouse usage`: each caller's use of the gateways, and its cost."""

import json
import sys
from dataclasses import replace
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
@click.option("--csv", "wants_csv", is_flag=True, help="Print CSV for spreadsheets.")
@click.option("--budgets-csv", "wants_budgets", is_flag=True, help="Print the budgets as CSV, without usage.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to ask.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
def usage(
    inventory: str,
    by: str,
    since: datetime | None,
    until: datetime | None,
    wants_csv: bool,
    wants_budgets: bool,
    as_json: bool,
    limit: tuple[str, ...],
    data: tuple[str, ...],
) -> None:
    """Add up requests, tokens, errors, cost and times that the gateways of INVENTORY counted. Changes nothing.

    The most expensive line comes first, or each day's with `--by day,…`. Each host keeps its own counters. The cost
    follows the `prices` of the Gateway at the time of a request. Ends with 3 if a host did not answer: its numbers are
    then missing. The budgets of `enginehouse key` follow: used, left, and the time of renewal; --csv leaves
    them to --budgets-csv.
    """
    from deploy.cost.budgets import budgets_as_csv, month_of
    from deploy.cost.usage import added_up, as_csv, groups_of, missing_sentences, table
    from deploy.io.usage import known_budgets, usage_rows

    if wants_csv + wants_budgets + as_json > 1:
        raise click.UsageError("The output has one form. Write: --csv, --budgets-csv or --json")
    with refusals_shown(inventory, as_json):
        groups = groups_of(by)
        plan = load_plan(inventory, data, limit, knobs())
        now = datetime.now(UTC)
        first = f"{since or now - timedelta(days=30):%Y-%m-%d}"
        last = f"{until:%Y-%m-%d}" if until else ""
        rows = usage_rows(plan, host_data(inventory, data), min(first, month_of(now)))
        budgets, notes = known_budgets(plan, rows, now)
        report = replace(added_up(rows, groups, first, last), budgets=budgets, notes=notes)
        if as_json:
            say(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
        elif wants_csv or wants_budgets:
            say(budgets_as_csv(budgets) if wants_budgets else as_csv(report), nl=False)
            for sentence in (*missing_sentences(report), *(notes if wants_budgets else ())):
                say(sentence, err=True)
        else:
            show(table(report))
        sys.exit(INCOMPLETE if report.missing else 0)
