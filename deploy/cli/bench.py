"""The verbs `enginehouse bench INVENTORY` and `enginehouse bench compare A B`."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from deploy.cli.knobs import knobs
from deploy.cli.ranges import ITEMS, TOKENS, Number, Whole
from deploy.io.inventory import load_plan
from deploy.io.printing import refusals_shown, say, show
from deploy.spec.sources import HUB_NAME

FILE = click.Path(path_type=Path)
ASKS = ("chat", "embed", "rerank", "rerank-tei")


class Bench(click.Group):
    """Treats an unknown verb as an inventory: `bench INVENTORY` is `bench run INVENTORY`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The command line's words, with `run` inserted before an inventory."""
        first = args[0] if args else "--help"
        return super().parse_args(ctx, args if first in (*self.commands, "-h", "--help") else ["run", *args])


@click.group(
    cls=Bench,
    context_settings={"help_option_names": ["-h", "--help"]},
    short_help="Measure the gateway, and compare two results.",
    epilog="Example: enginehouse bench inventories/h100.py --clients 16 --mix chat,rerank --key-file key",
)
def bench() -> None:
    """Measure the gateway of an inventory under load, and compare two results.

    `bench INVENTORY` is `bench run INVENTORY`; see `bench run --help`.
    """


@bench.command(
    "run",
    short_help="Put load on the gateway.",
    epilog="Example: enginehouse bench inventories/h100.py --clients 16 --mix chat,rerank --key-file key",
)
@click.argument("inventory")
@click.option("--clients", type=Whole(1, 65_536), default=8, show_default=True, help="Each asks again at once.")
@click.option("--rate", type=Number(0, 1_000_000), default=0.0, help="Requests a second instead, at random moments.")
@click.option("--mix", default="chat", show_default=True, help=f"At the same time, of {', '.join(ASKS)}.")
@click.option("--apart", is_flag=True, help="Each of the mix by itself, one after the other: what `cost` wants.")
@click.option("--cancel", default="0%", show_default=True, help="Clients that leave half a second after they asked.")
@click.option("--runs", type=Whole(1, 1000), default=6, show_default=True, help="Fewer can tell less apart.")
@click.option("--seconds", type=Number(1, 86_400), default=30.0, show_default=True, help="Of a run.")
@click.option("--prompt", type=TOKENS, default=512, show_default=True, help="Tokens of a chat's prompt.")
@click.option("--answer", type=TOKENS, default=128, show_default=True, help="Tokens of a chat's answer.")
@click.option("--piece", type=TOKENS, default=128, show_default=True, help="Tokens of a passage or text.")
@click.option("--passages", type=ITEMS, default=100, show_default=True, help="Of a request to rerank.")
@click.option("--texts", type=ITEMS, default=32, show_default=True, help="Of a request to embed.")
@click.option(
    "--first-token-ms", type=Number(1, 3_600_000), default=2500.0, show_default=True, help="Service level of goodput."
)
@click.option(
    "--gap-ms", type=Number(1, 3_600_000), default=100.0, show_default=True, help="Service level, between tokens."
)
@click.option(
    "--whole-ms", type=Number(1, 3_600_000), default=500.0, show_default=True, help="Service level of encoders."
)
@click.option("--url", default="", help="Of the gateway; else that of the inventory's first one.")
@click.option("--key-file", type=FILE, help="Holds an API key of the gateway, and nothing else.")
@click.option("--model", "models", multiple=True, help="Of several of a kind, this one.")
@click.option("--tokenizer", default="", help="A hub id or directory; else the model's own repository.")
@click.option("--from-prometheus", default="", metavar="URL", help="Knows the watts.")
@click.option("--to", type=FILE, default="bench.json", show_default=True, help="The result; a picture lies beside it.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
def run(inventory: str, to: Path, data: tuple[str, ...], **options: Any) -> None:
    """Put load on the gateway of INVENTORY with aiperf, and write the results.

    aiperf is installed in .cache/bench the first time (1.2 GB, versions pinned by hash). Its tokenizer makes the
    prompts: it is fetched from the hub unless --tokenizer names a directory.
    """
    from deploy.bench.load import Load
    from deploy.bench.picture import picture
    from deploy.io.bench import bench_of

    if options["url"] and "://" not in options["url"]:
        raise click.BadParameter(f"{options['url']} has no scheme. Write: --url http://{options['url']}")
    asks = tuple(word for word in options["mix"].split(",") if word)
    if not asks or set(asks) - set(ASKS):
        raise click.UsageError(f"--mix {options['mix']}: of {', '.join(ASKS)}, with commas between them")
    load = Load(
        clients=0 if options["rate"] else options["clients"],
        rate=options["rate"],
        cancel_percent=_percent(options["cancel"]),
        **{name: options[name] for name in ("seconds", "prompt", "answer", "piece", "passages", "texts")},
        **{name: options[name] for name in ("first_token_ms", "gap_ms", "whole_ms")},
    )
    with refusals_shown(inventory, False):
        result = bench_of(
            load_plan(inventory, data, (), knobs()),
            load,
            asks,
            url=options["url"],
            key=options["key_file"].read_text("utf-8").strip() if options["key_file"] else "",
            models=options["models"],
            tokenizer=_tokenizer(options["tokenizer"]),
            runs=options["runs"],
            apart=options["apart"],
            prometheus=options["from_prometheus"],
            say=lambda line: say(line, err=True),
        )
        to.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
        to.with_suffix(".svg").write_text(picture(result), "utf-8")
        show(_table(result))
        say(f"wrote {to} and {to.with_suffix('.svg')}")


def _percent(word: str) -> float:
    try:
        percent = float(word.removesuffix("%"))
    except ValueError:
        percent = -1.0
    if percent != 0 and not 1 <= percent <= 100:
        meant = f" Write {percent * 100:g}%." if 0 < percent < 1 else ""
        raise click.BadParameter(f"{word} is not a percentage: 5%.{meant}", param_hint="--cancel")
    return percent


def _tokenizer(word: str) -> str:
    """A directory as an absolute path, because aiperf runs in another directory."""
    if word and not Path(word).is_dir() and not HUB_NAME.fullmatch(word):
        raise click.BadParameter(f"{word} is no directory here and no OWNER/NAME of the hub", param_hint="--tokenizer")
    return str(Path(word).resolve()) if word and Path(word).is_dir() else word


@bench.command(
    "compare",
    short_help="Compare two results, and name what got slower.",
    epilog="Example: enginehouse bench compare before.json after.json && echo no slower",
)
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
@click.option(
    "--least",
    type=Number(1, 1000),
    default=10.0,
    show_default=True,
    help="Percent; a smaller difference is no finding.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def compare(before: Path, after: Path, least: float, as_json: bool) -> None:
    """Name the figures that got worse from the result BEFORE to the result AFTER, beyond the spread among runs.

    Ends with 0 if nothing is worse, with 2 if something is, and with 1 if the runs are too few to tell.
    """
    from deploy.bench.compare import compared
    from deploy.cost.measured import bench_of
    from deploy.io.cost import name_of, read_json

    with refusals_shown("", as_json):
        results = [bench_of(read_json(file), name_of(file)) for file in (before, after)]
        comparison = compared(results[0], results[1], least)
        if as_json:
            say(json.dumps(asdict(comparison), indent=2, ensure_ascii=False))
        else:
            show(_compared(comparison, least))
        sys.exit(comparison.exit_code)


def _table(result: dict[str, Any]) -> Any:
    from rich.table import Table as Shown

    table = Shown(box=None, pad_edge=False)
    columns = ("load", "first token p50 p95 p99 ms", "gap p50 p95 p99 ms", "whole p50 p95 p99 ms", "good/s", "all/s")
    for column in columns:
        table.add_column(column, justify="left" if column == "load" else "right", overflow="fold")
    for case in result["cases"]:
        middle = case["median"]
        latencies = [
            " ".join(f"{middle[key]:,.3g}" for part in ("p50", "p95", "p99") if (key := f"{name}_{part}_ms") in middle)
            for name in ("first_token", "gap", "whole")
        ]
        rates = (f"{middle['goodput_requests_per_second']:,.4g}", f"{middle['requests_per_second']:,.4g}")
        table.add_row(f"{case['model']}: {case['name']}", *latencies, *rates)
    return table


def _compared(comparison: Any, least: float) -> Any:
    from rich.console import Group
    from rich.table import Table as Shown
    from rich.text import Text

    from deploy.bench.compare import RULE

    table = Shown(box=None, pad_edge=False)
    for column in ("load", "figure", "before", "after", "worse by", "chance", ""):
        table.add_column(column, justify="left" if column in ("load", "figure", "") else "right", overflow="fold")
    for figure in comparison.figures:
        verdict = "worse" if figure.is_worse else "" if figure.is_tellable else "too few runs to tell"
        change = f"{figure.change_percent:+.1f}%"
        values = (f"{figure.before:,.4g}", f"{figure.after:,.4g}", change, f"{figure.chance:.2g}")
        table.add_row(figure.case, figure.name, *values, verdict)
    empty = [] if comparison.figures else [Text("no load was measured in both results")]
    notes = [RULE.format(least=least), *comparison.differences]
    return Group(table, *empty, *(Text(f"note  {sentence}") for sentence in notes))
