"""The command `enginehouse`: one click command for each verb, which prints what `deploy/io/` and `deploy/` return.

A verb imports what it alone needs when it runs: a plan is printed in well under a second.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from deploy.catalog import DEFAULT_RELEASE, PRECISIONS
from deploy.cli.bench import bench
from deploy.cli.cost import cost
from deploy.cli.key import key
from deploy.cli.migrate import migrate
from deploy.cli.size import size
from deploy.cli.top import top
from deploy.inventory.fleet import Fleet
from deploy.inventory.knobs import Table
from deploy.io.inventory import host_data, load_plan
from deploy.io.local_weights import look_around
from deploy.io.shown import REFUSED, refusals_shown, show


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "obj": lambda: knobs()},
    epilog="Example: enginehouse plan inventories/h100.py",
)
def main() -> None:
    """Decide what every host is to become, without touching one."""


@main.command(
    short_help="Print what every host is to become, and a digest of it.",
    epilog="Example: enginehouse plan inventories/h100.py",
)
@click.argument("inventory")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to show; the digest stays that of the whole.")
@click.option("--data", multiple=True, help="KEY=VALUE above what the inventory says.")
def plan(inventory: str, as_json: bool, limit: tuple[str, ...], data: tuple[str, ...]) -> None:
    """Print the plan of INVENTORY and its digest, or every reason why there is none."""
    with refusals_shown(inventory, as_json):
        loaded_plan = load_plan(inventory, data, limit, knobs())
        if as_json:
            click.echo(json.dumps(loaded_plan.to_json(), indent=2, ensure_ascii=False))
        else:
            from deploy.reports.plan import plan_report

            show(plan_report(loaded_plan))


@main.command(
    short_help="Say how many tokens and users fit on a GPU beside models.",
    epilog="Example: enginehouse fit h100 gpt-oss-20b bge-reranker-large",
)
@click.argument("gpu")
@click.argument("models", nargs=-1, required=True)
@click.option("--release", default=DEFAULT_RELEASE, show_default=True)
@click.option("--tp", default=1, show_default=True, help="GPUs the LLM is split over (tensor parallelism).")
@click.option("--path", type=click.Choice(["pytorch", "engine"]), default=None, help="How the LLM is served.")
@click.option("--precision", type=click.Choice(sorted(PRECISIONS)), default=None, help="Of the LLM's weights.")
@click.option("--max-seq-len", default=0, help="Tokens of the LLM's longest sequence, prompt and answer.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def fit(
    gpu: str,
    models: tuple[str, ...],
    release: str,
    tp: int,
    path: str | None,
    precision: str | None,
    max_seq_len: int,
    as_json: bool,
) -> None:
    """Say what is left on GPU beside MODELS, in tokens and in simultaneous users.

    GPU is a row of the catalog, or the beginning of one. A model is a name of the catalog, a hub id, or a directory
    with config.json and safetensors files.
    """
    from deploy.io.fit_models import models_of
    from deploy.planning.fit import Wish, fit_of, near_card

    with refusals_shown("", as_json):
        card, choice = near_card(gpu)
        if choice:
            click.echo(choice, err=True)
        wanted, around = models_of(models, look_around(Fleet(()), Path.cwd()), Path.cwd())
        wish = Wish(gpus=max(tp, 1), path=path or "", precision=precision or "", max_seq_len=max_seq_len)
        fitted = fit_of(card, wanted, release, around, wish)
        if as_json:
            click.echo(json.dumps(fitted.to_json(), indent=2, ensure_ascii=False))
        else:
            from deploy.reports.plan import fit_report

            show(fit_report(fitted))


@main.command(
    short_help="Write the digest of the image into an inventory.",
    epilog="Example: enginehouse pin inventories/h100.py",
)
@click.argument("inventory")
@click.option("--data", multiple=True, help="KEY=VALUE above what the inventory says.")
def pin(inventory: str, data: tuple[str, ...]) -> None:
    """Ask the registry for the digest of INVENTORY's image and write it into that file."""
    from deploy.io.pin import pinned, write_digest

    with refusals_shown(inventory, False):
        loaded_plan = load_plan(inventory, data, knobs=knobs())
        click.echo(write_digest(Path(inventory), pinned(loaded_plan)), nl=False)


@main.command(
    short_help="Judge a pasted command, and print the right one.",
    epilog="Example: enginehouse check 'trtllm-build --max_batchsize 64'",
)
@click.argument("pasted", metavar="TEXT_OR_FILE")
@click.option(
    "--release", default="", help=f"A release ({DEFAULT_RELEASE}) or a TensorRT-LLM version; else the image's."
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def check(pasted: str, release: str, as_json: bool) -> None:
    """Judge a command line or a config.pbtxt word by word, and print the right one. Nothing is run."""
    from deploy.io.given_text import text_of
    from deploy.linter import check as check_text

    with refusals_shown("", as_json):
        verdict = check_text(text_of(pasted), release)
        click.echo(json.dumps(verdict.to_json(), indent=2, ensure_ascii=False) if as_json else str(verdict), nl=as_json)
        sys.exit(0 if verdict.is_fine else REFUSED)


@main.command(
    short_help="Write an inventory for machines, from their own answers.",
    epilog="Example: enginehouse init ubuntu@203.0.113.7:2222",
)
@click.argument("targets", metavar="USER@HOST[:PORT]...", nargs=-1, required=True)
@click.option("--balancer", multiple=True, metavar="USER@HOST", help="A machine without GPU that is to run HAProxy.")
@click.option("--monitor", multiple=True, metavar="USER@HOST", help="A machine without GPU that is to run Prometheus.")
def init(targets: tuple[str, ...], balancer: tuple[str, ...], monitor: tuple[str, ...]) -> None:
    """Ask machines over ssh what they are, and write an inventory for them. Equal machines become a group."""
    from deploy.inventory.first_inventory import Target, inventory_text
    from deploy.io.ask import asked, write_inventory

    with refusals_shown("", False):
        serving, *apart = ([Target.of(text) for text in dict.fromkeys(texts)] for texts in (targets, balancer, monitor))
        machines, outside = asked(serving, [*apart[0], *apart[1]])
        text = inventory_text(machines, outside[: len(apart[0])], outside[len(apart[0]) :])
        file = write_inventory(Path("inventories"), [*serving, *apart[0], *apart[1]], text)
        click.echo(f"wrote {file}; read it, then: enginehouse plan {file}")


@main.command(
    short_help="Ask the served models a question each.",
    epilog='Example: enginehouse ask inventories/h100.py gpt-oss-20b "Say hello."',
)
@click.argument("inventory")
@click.argument("model", default="")
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to ask.")
@click.option("--data", multiple=True, help="KEY=VALUE above what the inventory says.")
@click.option("--key-file", default="", help="A file with a key of the front door; else ENGINEHOUSE_KEY has it.")
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

    Prints the line that asks, to paste, and the answer. A reranker takes a query and passages. With a key, a front door
    is asked where there is one; without, Triton itself.
    """
    from deploy.io.ask_models import asked_in_turn, unopened
    from deploy.io.door_key import given_key

    with refusals_shown(inventory, as_json):
        key, loaded_plan = given_key(key_file, os.environ), load_plan(inventory, data, limit, knobs())
        asked_in_turn(loaded_plan, host_data(inventory, data), model, texts, click.echo, as_json, key)
        if note := unopened(loaded_plan, key):
            click.echo(note, err=True)


@main.command(
    short_help="Say which hosts are not as the inventory says.",
    epilog="Example: enginehouse drift inventories/h100.py && echo nothing to do",
)
@click.argument("inventory")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to look at.")
@click.option("--data", multiple=True, help="KEY=VALUE above what the inventory says.")
def drift(inventory: str, as_json: bool, limit: tuple[str, ...], data: tuple[str, ...]) -> None:
    """Look at the hosts of INVENTORY, and only look: what would deploy.py change?

    Ends with 0 where nothing differs, with 2 where something does, and with 1 where a host could not be asked.
    """
    from deploy.io.drift import drift_of

    with refusals_shown(inventory, as_json):
        load_plan(inventory, data, limit, knobs())  # what is refused, is refused before any host is asked
        found = drift_of(inventory, data, limit)
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False) if as_json else str(found))
        sys.exit(found.exit_code)


main.add_command(key)
main.add_command(bench)
main.add_command(cost)
main.add_command(size)
main.add_command(migrate)
main.add_command(top)


@main.command(
    short_help="Write alert rules and dashboards of a fleet.",
    epilog="Example: enginehouse monitoring inventories/h100.py /tmp/monitoring",
)
@click.argument("inventory")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--data", multiple=True, help="KEY=VALUE above what the inventory says.")
def monitoring(inventory: str, folder: Path, data: tuple[str, ...]) -> None:
    """Write to FOLDER: alert rules for Prometheus 2.42 and later, and dashboards for Grafana.

    Touches no host. Prints the files, and which targets your Prometheus has to scrape under which job.
    """
    from deploy.io.monitoring import jobs, written

    with refusals_shown(inventory, False):
        for path in written(load_plan(inventory, data, (), knobs()), inventory, folder):
            click.echo(f"wrote {path}")
        click.echo("\n".join(["jobs of the scrape configuration:", *jobs()]))


@main.command(
    short_help="Say what is wrong on the hosts, and what to type.",
    epilog="Example: enginehouse doctor inventories/h100.py",
)
@click.argument("inventory")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to examine.")
@click.option("--data", multiple=True, help="KEY=VALUE above what the inventory says.")
@click.option("--drift/--no-drift", default=True, show_default=True, help="Ask what the next deploy would do, too.")
def doctor(inventory: str, as_json: bool, limit: tuple[str, ...], data: tuple[str, ...], drift: bool) -> None:
    """Examine the hosts of INVENTORY, and change nothing.

    `--data report=FILE` writes what was read, without secrets, as an archive for a colleague or a vendor.

    Ends with 0 where all are healthy, with 2 where something is broken, with 3 where there are warnings only, and with
    1 where a host could not be asked.
    """
    from deploy.io.doctor import examined

    with refusals_shown(inventory, as_json):
        load_plan(inventory, data, limit, knobs())  # what is refused, is refused before any host is asked
        report = examined(inventory, data, limit, with_drift=drift)
        click.echo(report.to_text() if as_json else str(report))
        sys.exit(report.exit_code)


def knobs() -> Table:
    """The settings an inventory may override, by role. Beside deploy.py the one place where deploy/ and roles/ meet."""
    from roles._pyinfra.settings import known_settings

    return known_settings()


if __name__ == "__main__":
    main()
