"""The verbs `enginehouse key …`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from deploy.inventory.gateway_keys import CONCURRENT, FILE, concurrency, rows
from deploy.io.key_file import keys_of, new_key, revoke
from deploy.io.shown import refusals_shown, say, show

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


KEY_FILE = click.option("--file", default=FILE, show_default=True, help="Where the hashes of keys are kept.")


@key.command(
    "new",
    short_help="Make a key and print it, once.",
    epilog="Example: enginehouse key new search --models llama,bge --tokens-per-minute 100000 --expires 90d",
)
@click.argument("tenant")
@click.option("--models", default="*", show_default=True, help="Names or aliases, with commas between them.")
@click.option("--tokens-per-minute", type=int, help="Of prompts and answers.")
@click.option("--tokens-per-day", type=int, help="Of prompts and answers, in a day (UTC).")
@click.option("--tokens-per-month", type=int, help="The same in a month of the calendar.")
@click.option("--requests-per-minute", type=int)
@click.option("--concurrent", default=str(CONCURRENT), show_default=True, help="Requests under way; or: unlimited.")
@click.option("--expires", default="never", show_default=True, help="90d, 12h, 2w, or a day: 2027-03-01 (UTC).")
@KEY_FILE
def key_new(
    tenant: str,
    models: str,
    tokens_per_minute: int | None,
    tokens_per_day: int | None,
    tokens_per_month: int | None,
    requests_per_minute: int | None,
    concurrent: str,
    expires: str,
    file: str,
) -> None:
    """Make a key for TENANT. The key alone is on standard output; it is shown once and kept nowhere.

    Keys that TENANT has already go on: hand the new one out, then revoke the old one.
    """
    names = [name.strip() for name in models.split(",")]
    limits = {"tokens_per_minute": tokens_per_minute, "requests_per_minute": requests_per_minute}
    limits |= {"tokens_per_day": tokens_per_day, "tokens_per_month": tokens_per_month}
    with refusals_shown("", False):
        limits |= {"concurrent": concurrency(concurrent)}
        text, line, others = new_key(Path(file), tenant, names, expires, **limits)
        say(text)
        at_once = f"up to {line.concurrent} requests" if line.concurrent else "any number of requests"
        say(
            f"wrote {line.prefix} of {tenant} to {file}, {at_once} at once; hosts know it after the next run of "
            "deploy.py",
            err=True,
        )
        for other in others:
            say(f"{other.prefix} of {tenant} goes on; to end it: enginehouse key revoke {other.prefix}", err=True)


@key.command("list", short_help="List keys by tenant.", epilog="Example: enginehouse key list")
@KEY_FILE
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def key_list(file: str, as_json: bool) -> None:
    """List the keys of the file: prefix, tenant, models, expiry and limits."""
    with refusals_shown("", as_json):
        keys = keys_of(Path(file))
        if as_json:
            say(json.dumps({"keys": [entry.to_json() for entry in keys]}, indent=2, ensure_ascii=False))
        else:
            from rich.table import Table as Columns

            table = Columns(*("prefix", "tenant", "models", "expires, UTC", "limits"), box=None, pad_edge=False)
            for row in rows(keys, datetime.now(UTC)):
                table.add_row(*row)
            show(table if keys else f"{file} has no keys; enginehouse key new TENANT makes one")


@key.command("revoke", short_help="Revoke a key.", epilog="Example: enginehouse key revoke eh-4k2pxt")
@click.argument("prefix")
@KEY_FILE
def key_revoke(prefix: str, file: str) -> None:
    """Revoke the key whose first characters are PREFIX, as `enginehouse key list` shows them."""
    with refusals_shown("", False):
        revoked = revoke(Path(file), prefix)
        say(f"{revoked.prefix} of {revoked.tenant} is out of {file}; gateways refuse it after: {SENDS}")
