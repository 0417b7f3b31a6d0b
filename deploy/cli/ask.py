"""The verb `enginehouse ask`: asks the served models a question each."""

import os

import click

from deploy.cli.knobs import knobs
from deploy.io.inventory import host_data, load_plan
from deploy.io.printing import refusals_shown, say


@click.command(
    short_help="Ask the served models a question each.",
    epilog='Example: enginehouse ask inventories/h100.py gpt-oss-20b "Say hello."',
)
@click.argument("inventory")
@click.argument("model", default="")
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to ask.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
@click.option("--key-file", default="", help="A file with a key of the gateway; else ENGINEHOUSE_KEY has it.")
def ask(
    inventory: str,
    model: str,
    texts: tuple[str, ...],
    as_json: bool,
    limit: tuple[str, ...],
    data: tuple[str, ...],
    key_file: str,
) -> None:
    """Ask every model of INVENTORY, or MODEL, one question.

    Prints the command line of the question, ready to paste, and the answer. A reranker takes a query and passages. With
    a key, a gateway is asked if there is one; without, Triton itself.
    """
    from deploy.io.ask import asked_in_turn, unopened
    from deploy.io.gateway_key import given_key

    with refusals_shown(inventory, as_json):
        key, loaded_plan = given_key(key_file, os.environ), load_plan(inventory, data, limit, knobs())
        asked_in_turn(loaded_plan, host_data(inventory, data), model, texts, say, as_json, key)
        if note := unopened(loaded_plan, key):
            say(note, err=True)
