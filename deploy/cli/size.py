"""The verb `enginehouse size`: its options, and the table of cards it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deploy.catalog import DEFAULT_RELEASE, GPUS
from deploy.cli.ranges import TOKENS, Number, Whole
from deploy.inventory.slips import meant_by
from deploy.io.printing import refusals_shown, say, show

if TYPE_CHECKING:
    from deploy.cost.size import Demand, Size

FILE = click.Path(path_type=Path)
LONGEST_SECONDS = 86_400
LONGEST_WAIT = 60


def seconds(word: str) -> float:
    """Seconds of `1s`, `800ms` or `1.5`; another word ends the command with a message."""
    number, factor = (word.removesuffix("ms"), 0.001) if word.endswith("ms") else (word.removesuffix("s"), 1.0)
    try:
        length = float(number) * factor
    except ValueError:
        length = 0.0
    if not 0 < length <= LONGEST_SECONDS:
        typed = meant_by(word, "int", "x_seconds").partition("=")[2]
        meant = f" Write {typed}s." if typed else ""
        raise click.BadParameter(f"{word} is not a duration of up to a day: 1s, 800ms.{meant}")
    return length


def first_token(word: str) -> float:
    """Seconds until the first token. The refusal of a plain number above LONGEST_WAIT offers milliseconds."""
    length = seconds(word)
    if length > LONGEST_WAIT:
        meant = f" Write {word}ms." if re.fullmatch(r"[0-9]+", word) else ""
        raise click.BadParameter(f"{word} is longer than a person waits, {LONGEST_WAIT} s.{meant}")
    return length


@click.command(
    short_help="Compute the number of cards for a number of users.",
    epilog="Example: enginehouse size --users 400 --prompt 2000 --answer 400 --first-token 1s gpt-oss-20b",
)
@click.argument("models", nargs=-1, required=True)
@click.option("--users", type=Whole(1, 100_000_000), required=True, help="Users of the service.")
@click.option("--prompt", type=TOKENS, required=True, help="Tokens of a question.")
@click.option("--answer", type=TOKENS, required=True, help="Tokens of an answer.")
@click.option(
    "--first-token",
    type=first_token,
    default="1s",
    show_default=True,
    help="Longest time to the first token, for 95 of 100 questions.",
)
@click.option(
    "--at-once",
    type=Number(0, 100, min_open=True),
    default=100.0,
    show_default=True,
    help="Percent of the users with an open question.",
)
@click.option("--every", type=seconds, help="Time between two questions of a user; for --passages and --texts.")
@click.option("--passages", type=Whole(0, 100_000), default=0, help="Passages reranked for each question.")
@click.option("--texts", type=Whole(0, 100_000), default=0, help="Texts embedded for each question.")
@click.option("--piece", type=TOKENS, default=128, show_default=True, help="Tokens of a passage or text.")
@click.option("--gpu", "gpus", multiple=True, help="A card; default: every card of the catalog.")
@click.option("--bench", multiple=True, type=FILE, help="A bench result.")
@click.option("--release", default=DEFAULT_RELEASE, show_default=True, help="Release of Triton's image.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def size(
    models: tuple[str, ...], gpus: tuple[str, ...], bench: tuple[Path, ...], as_json: bool, **options: Any
) -> None:
    """Print the number of cards that MODELS need, by memory and by a bench's measurements, with the assumptions.

    A model that no bench covers is "not measured"; its number of cards is the least that memory allows.
    """
    from deploy.cost.measured import loads_of
    from deploy.cost.size import Demand, sizes, to_json
    from deploy.inventory.fleet import Fleet
    from deploy.io.cost import name_of, read_json
    from deploy.io.fit_models import models_of
    from deploy.io.local_weights import look_around
    from deploy.planning.card_words import cards_of

    with refusals_shown("", as_json):
        if (options["passages"] or options["texts"]) and not options["every"]:
            raise click.UsageError("--passages and --texts need --every: seconds between two questions of a user")
        demand = Demand(
            users=options["users"],
            prompt=options["prompt"],
            answer=options["answer"],
            first_token_seconds=options["first_token"],
            at_once_percent=options["at_once"],
            every_seconds=options["every"] or 0.0,
            passages=options["passages"],
            texts=options["texts"],
            piece_tokens=options["piece"],
        )
        wanted, around = models_of(models, look_around(Fleet(()), Path.cwd()), Path.cwd(), options["release"])
        cards = cards_of(gpus) or list(GPUS)
        loads = [load for file in bench for load in loads_of(read_json(file), name_of(file))]
        results = sizes(cards, wanted, options["release"], around, demand, loads)
        if as_json:
            say(json.dumps(to_json(results, demand), indent=2, ensure_ascii=False))
        else:
            show(_report(results, demand))


def _report(results: tuple[Size, ...], demand: Demand) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from deploy.cost.size import assumptions

    table = Table(box=None, pad_edge=False)
    for column in ("card", "cards", "GPUs a replica", "sequences it holds", "replicas by memory", "by speed"):
        table.add_column(column, justify="left" if column in ("card", "by speed") else "right", overflow="fold")
    notes: dict[str, None] = {}
    for row in results:
        if row.refusal:
            table.add_row(row.card, "none", "", "", "", f"does not fit: {row.refusal}")
            continue
        cards = f"{row.cards}" if row.is_measured else f"at least {row.cards}"
        measured = [f"{need.model} {need.replicas:.3g}" for need in row.needs if need.replicas is not None]
        missing = [need.model for need in row.needs if need.replicas is None]
        speed = ", ".join([*measured, *([f"not measured: {', '.join(missing)}"] if missing else [])])
        sequences = f"{row.sequences:,}" if row.sequences else ""
        table.add_row(row.card, cards, str(row.gpus), sequences, f"{row.by_memory:,}", speed or "nothing is asked")
        notes |= {f"{row.card}, {need.model}: {need.why}": None for need in row.needs if need.replicas is not None}
        missed = (need for need in row.needs if need.replicas is None and not need.why.startswith("no bench"))
        notes |= {f"{row.card}, {need.model}: {need.why}": None for need in missed}
    return Group(table, Text(""), *(Text(f"note  {sentence}") for sentence in (*notes, *assumptions(demand))))
