"""The verbs `enginehouse key …`."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click
from click.core import ParameterSource

from deploy.cli.knobs import knobs
from deploy.inventory.gateway_keys import CONCURRENT, FILE, concurrency, expiry_text, rows
from deploy.inventory.gateway_keys import UNLIMITED as UNLIMITED_WORD
from deploy.inventory.key_change import UNLIMITED
from deploy.inventory.key_limits import NO_NAMES, checked_limits, confirm_budgets, limits_text, money, tenant_limits
from deploy.io.inventory import load_plan
from deploy.io.key_file import change, content_of, new_key, revoke, set_tenant
from deploy.io.printing import refusals_shown, say, show
from deploy.planning.key_models import confirm_served

SENDS = "pyinfra INVENTORY deploy.py --data only=gateway"


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    short_help="Make, list and revoke API keys of the gateway.",
    epilog="Example: enginehouse key new search --models bge-reranker-large --requests-per-minute 600 --expires 90d",
)
def key() -> None:
    """Make, list and revoke API keys of the gateway.

    The file keeps a hash of each key and no key: it may be committed. A key is shown once, when it is made. `pyinfra
    INVENTORY deploy.py --data only=gateway` sends it to the gateways, which read it within a second.
    """


BUDGETS = (
    click.option("--tokens-per-day", type=int, help="Of prompts and answers, in a day (UTC)."),
    click.option("--tokens-per-month", type=int, help="The same in a month of the calendar."),
    click.option("--cost-per-day", metavar="MONEY", help="By the prices of the Gateway: 12.50."),
    click.option("--cost-per-month", metavar="MONEY", help="The same in a month of the calendar."),
    click.option("--currency", default="USD", show_default=True, help="Of both; that of the prices."),
)


def budgets(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options for daily and monthly budgets."""
    for option in reversed(BUDGETS):
        command = option(command)
    return command


def _file_of_keys(_ctx: click.Context, _param: click.Parameter, word: str) -> str:
    if word.lower() in NO_NAMES or word[:1] in ("-", "$"):
        raise click.BadParameter(f"{word} names no file. Write: --file {FILE}, the default")
    if "://" in word:
        raise click.BadParameter(f"{word} is a URL, and the file of keys is on this machine: {FILE}")
    return word


KEY_FILE = click.option(
    "--file", default=FILE, show_default=True, callback=_file_of_keys, help="Where the hashes of keys are kept."
)


@key.command(
    "new",
    short_help="Make a key and print it, once.",
    epilog="Example: enginehouse key new search --models llama,bge --tokens-per-minute 100000 --expires 90d",
)
@click.argument("tenant")
@click.option("--models", default="*", show_default=True, help="Names or aliases, with commas between them.")
@click.option("--tokens-per-minute", type=int, help="Of prompts and answers.")
@budgets
@click.option("--requests-per-minute", type=int)
@click.option("--concurrent", default=str(CONCURRENT), show_default=True, help="Requests under way; or: unlimited.")
@click.option("--expires", default="never", show_default=True, help="90d, 12h, 2w, or a day: 2027-03-01 (UTC).")
@click.option("--inventory", default="", help="Refuse models that its gateways do not serve.")
@KEY_FILE
def key_new(
    tenant: str,
    models: str,
    tokens_per_minute: int | None,
    tokens_per_day: int | None,
    tokens_per_month: int | None,
    cost_per_day: str | None,
    cost_per_month: str | None,
    currency: str,
    requests_per_minute: int | None,
    concurrent: str,
    expires: str,
    inventory: str,
    file: str,
) -> None:
    """Make a key for TENANT. The key alone is on standard output; it is shown once and kept nowhere.

    TENANT's earlier keys stay valid: hand the new one out, then revoke the old one.
    """
    names = [name.strip() for name in models.split(",")]
    limits = {"tokens_per_minute": tokens_per_minute, "requests_per_minute": requests_per_minute}
    limits |= {"tokens_per_day": tokens_per_day, "tokens_per_month": tokens_per_month}
    with refusals_shown(inventory, False):
        if inventory:
            confirm_served(names, load_plan(inventory, (), (), knobs()).slices, inventory)
        limits |= {"concurrent": concurrency(concurrent)}
        limits |= {
            "cost_per_day": money("--cost-per-day", cost_per_day),
            "cost_per_month": money("--cost-per-month", cost_per_month),
        }
        text, line, others = new_key(Path(file), tenant, names, expires, currency, **limits)
        say(text)
        at_once = f"up to {line.concurrent} requests" if line.concurrent else "any number of requests"
        say(
            f"wrote {line.prefix} of {tenant} to {file}, {at_once} at once; hosts know it after the next run of "
            "deploy.py",
            err=True,
        )
        for old_key in others:
            say(f"{old_key.prefix} of {tenant} goes on; to end it: enginehouse key revoke {old_key.prefix}", err=True)


@key.command(
    "change",
    short_help="Change a key's models, limits or expiry.",
    epilog="Example: enginehouse key change eh-4k2pxt --cost-per-day 5 --currency EUR --expires 2026-12-31",
)
@click.argument("prefix")
@click.option("--models", help="Names or aliases, with commas between them; or: *.")
@click.option("--tokens-per-minute", type=int, help="Of prompts and answers.")
@budgets
@click.option("--requests-per-minute", type=int)
@click.option("--concurrent", help="Requests under way; or: unlimited.")
@click.option("--expires", help="90d, 12h, 2w, a day: 2027-03-01 (UTC), or: never.")
@KEY_FILE
def key_change(
    prefix: str,
    models: str | None,
    concurrent: str | None,
    expires: str | None,
    cost_per_day: str | None,
    cost_per_month: str | None,
    currency: str,
    file: str,
    **limits: int | None,
) -> None:
    """Change rights of the key whose first characters are PREFIX. The key itself and all other rights stay the same.

    Open requests keep their limits. Requests to models that the key loses are ended.
    """
    with refusals_shown("", False):
        at_once = None if concurrent is None else UNLIMITED if concurrent == UNLIMITED_WORD else concurrency(concurrent)
        money_limits = {"cost_per_day": money("--cost-per-day", cost_per_day)}
        money_limits |= {"cost_per_month": money("--cost-per-month", cost_per_month)}
        checked_limits(limits | money_limits, currency)  # checked before the key is looked up
        names = None if models is None else [name.strip() for name in models.split(",")]
        rights = {"models": names, "expires": expires, "concurrent": at_once, **money_limits, **limits}
        is_typed = click.get_current_context().get_parameter_source("currency") is not ParameterSource.DEFAULT
        changed = change(Path(file), prefix, currency if is_typed else "", **rights)
        names_text, ends = ",".join(changed.models), expiry_text(changed, datetime.now(UTC))
        say(f"{changed.prefix} of {changed.tenant}: {limits_text(changed)}; models {names_text}; ends {ends}")
        say(f"wrote it to {file}; gateways know it after: {SENDS}", err=True)


@key.command(
    "tenant",
    short_help="Give all keys of a tenant budgets together.",
    epilog="Example: enginehouse key tenant search --cost-per-month 250 --currency EUR",
)
@click.argument("tenant")
@budgets
@click.option("--none", "without", is_flag=True, help="Remove all budgets of TENANT.")
@KEY_FILE
def key_tenant(
    tenant: str,
    without: bool,
    tokens_per_day: int | None,
    tokens_per_month: int | None,
    cost_per_day: str | None,
    cost_per_month: str | None,
    currency: str,
    file: str,
) -> None:
    """Set the budgets that all keys of TENANT share; budgets of single keys still apply. Earlier budgets of TENANT are
    replaced."""
    with refusals_shown("", False):
        confirm_budgets(tenant, (tokens_per_day, tokens_per_month, cost_per_day, cost_per_month), without)
        line = tenant_limits(
            tenant,
            currency,
            tokens_per_day=tokens_per_day,
            tokens_per_month=tokens_per_month,
            cost_per_day=money("--cost-per-day", cost_per_day),
            cost_per_month=money("--cost-per-month", cost_per_month),
        )
        content = set_tenant(Path(file), line)
        count = sum(entry.tenant == tenant for entry in content.keys)
        say(f"wrote the budgets of {tenant} to {file}: {limits_text(line)}; {count} keys share them after: {SENDS}")


@key.command("list", short_help="List keys by tenant.", epilog="Example: enginehouse key list")
@KEY_FILE
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def key_list(file: str, as_json: bool) -> None:
    """List the keys of the file: prefix, tenant, models, expiry and limits; and the budgets of tenants."""
    with refusals_shown("", as_json):
        content = content_of(Path(file))
        keys = content.keys
        if as_json:
            lines = {"keys": [entry.to_json() for entry in keys]}
            lines |= {"tenants": [line.to_json() for line in content.tenants]}
            say(json.dumps(lines, indent=2, ensure_ascii=False))
        else:
            from rich.table import Table as Columns

            table = Columns(*("prefix", "tenant", "models", "expires, UTC", "limits"), box=None, pad_edge=False)
            for row in rows(keys, datetime.now(UTC)):
                table.add_row(*row)
            show(table if keys else f"{file} has no keys; enginehouse key new TENANT makes one")
            for line in content.tenants:
                say(f"all keys of {line.tenant} together: {limits_text(line)}")


@key.command("revoke", short_help="Revoke a key.", epilog="Example: enginehouse key revoke eh-4k2pxt")
@click.argument("prefix")
@KEY_FILE
def key_revoke(prefix: str, file: str) -> None:
    """Revoke the key whose first characters are PREFIX, as `enginehouse key list` shows them."""
    with refusals_shown("", False):
        revoked = revoke(Path(file), prefix)
        say(f"{revoked.prefix} of {revoked.tenant} is out of {file}; gateways refuse it after: {SENDS}")
