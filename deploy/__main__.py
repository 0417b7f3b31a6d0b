"""The edge of `deploy/`: loads inventories through pyinfra, reads the clock and local checkpoints, prints plans.

`planned` is what `deploy.py` calls; `main` is the command `enginehouse`. With `deploy.errors` the only place that
imports pyinfra, and only when it is needed: a plan is printed in well under a second.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import click

from deploy.edge.engine_inputs import input_problems
from deploy.edge.engine_records import with_engines
from deploy.edge.local_weights import look_around
from deploy.edge.mistakes import explained
from deploy.errors import Refusal, Refusals, refuse_all
from deploy.fleet import Fleet
from deploy.plan import Plan, make_plan
from deploy.refuse import refuse

REFUSED = 1
_plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()


def planned(inventory: Any, host: Any) -> Plan:
    """The plan of the whole inventory, made once for all its hosts and seen from those of `--limit`.

    `--data expect=DIGEST` refuses any other plan. So is one whose engines need something this machine does not have.
    """
    real = getattr(host, "inventory", inventory)
    if real not in _plans:
        made = _plan_of(real)
        refuse_all(input_problems(made.slices, Path.cwd()))
        _plans[real] = made
    limited = getattr(getattr(real, "state", None), "limit_hosts", None)
    return _plans[real].only(one.name for one in limited) if isinstance(limited, list) else _plans[real]


def _plan_of(inventory: Any) -> Plan:
    """The plan of an inventory in the surroundings of this machine."""
    fleet, root = Fleet.of(inventory), Path.cwd()
    return make_plan(fleet, with_engines(look_around(fleet, root), inventory, fleet, root))


def load_inventory(file: str, data: dict[str, Any]) -> Any:
    """pyinfra's own reading of an inventory: group data, host data, and `data` above both."""
    from pyinfra.api.state import State
    from pyinfra.context import ctx_state
    from pyinfra_cli.exceptions import UnexpectedExternalError
    from pyinfra_cli.inventory import make_inventory

    if not Path(file).is_file():
        raise refuse(
            "no-inventory",
            f"there is no inventory {file}",
            where=file,
            seen="no such file",
            wanted="a Python file with hosts, such as inventories/h100.py",
            attempt="enginehouse plan inventories/h100.py",
        )
    with ctx_state.use(State()):
        try:
            return make_inventory(file, override_data=data, cwd=str(Path.cwd()))
        except UnexpectedExternalError as error:
            raise explained(error.exception, file) from None


def load_plan(file: str, data: Iterable[str] = (), limit: Iterable[str] = ()) -> Plan:
    """The plan of an inventory file, for programs such as the smoke tests; `data` and `limit` as pyinfra takes them."""
    loaded = load_inventory(file, override_data(data))
    return _plan_of(loaded).only(names_in(loaded, limit))


def host_data(file: str, data: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    """What the inventory says about each host, by name, typed objects and connector settings alike."""
    return {host.name: host.data.dict() for host in load_inventory(file, override_data(data))}


def names_in(inventory: Any, limit: Iterable[str]) -> list[str]:
    """Hosts of these groups, names or patterns, as pyinfra's `--limit` takes them; all without any."""
    if not limit:
        return [host.name for host in inventory]
    from pyinfra_cli.cli import _apply_inventory_limit

    return [host.name for host in _apply_inventory_limit(inventory, tuple(limit))]


def override_data(pairs: Iterable[str]) -> dict[str, Any]:
    """`--data key=value`, read as pyinfra reads it."""
    from pyinfra_cli.util import parse_cli_arg

    split = (pair.partition("=") for pair in pairs)
    return {key: parse_cli_arg(value) for key, _, value in split}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Decide what every host is to become, without touching one."""


@main.command()
@click.argument("inventory")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--limit", multiple=True, help="Hosts, groups or patterns to show; the digest stays that of the whole.")
@click.option("--data", multiple=True, help="KEY=VALUE above what the inventory says.")
def plan(inventory: str, as_json: bool, limit: tuple[str, ...], data: tuple[str, ...]) -> None:
    """Print the plan of INVENTORY and its digest, or every reason why there is none."""
    with refusals_shown(inventory, as_json):
        made = load_plan(inventory, data, limit)
        if as_json:
            click.echo(json.dumps(made.to_json(), indent=2, ensure_ascii=False))
        else:
            from deploy.report import plan_report

            show(plan_report(made))


@main.command()
@click.argument("gpu")
@click.argument("models", nargs=-1, required=True)
@click.option("--release", default="26.07", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def fit(gpu: str, models: tuple[str, ...], release: str, as_json: bool) -> None:
    """Say what is left on GPU beside MODELS, in tokens and in simultaneous users."""
    from deploy.fit import fit as fit_on

    with refusals_shown("", as_json):
        found = fit_on(gpu, models, release, look_around(Fleet(()), Path.cwd()))
        if as_json:
            click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
        else:
            from deploy.report import fit_report

            show(fit_report(found))


@main.command()
@click.argument("inventory")
@click.option("--data", multiple=True, help="KEY=VALUE above what the inventory says.")
def pin(inventory: str, data: tuple[str, ...]) -> None:
    """Ask the registry for the digest of INVENTORY's image and write it into that file."""
    from deploy.edge.pin import pinned, write_digest

    with refusals_shown(inventory, False):
        made = load_plan(inventory, data)
        click.echo(write_digest(Path(inventory), pinned(made)), nl=False)


@main.command()
@click.argument("pasted", metavar="TEXT_OR_FILE")
@click.option("--release", default="", help="A release such as 26.07, or a TensorRT-LLM version; else the image's.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def check(pasted: str, release: str, as_json: bool) -> None:
    """Judge a command line or a config.pbtxt word by word, and print the right one. Nothing is run."""
    from deploy.edge.given_text import text_of
    from deploy.paste import check as check_text

    with refusals_shown("", as_json):
        found = check_text(text_of(pasted), release)
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False) if as_json else str(found), nl=as_json)
        sys.exit(0 if found.is_fine else REFUSED)


@main.command()
@click.argument("target", metavar="USER@HOST")
def init(target: str) -> None:
    """Ask a machine over ssh what it is, and write an inventory for it."""
    from deploy.edge.ask import ask, inventory_text, write_inventory

    with refusals_shown("", False):
        file = write_inventory(Path("inventories"), target, inventory_text(target, ask(target)))
        click.echo(f"wrote {file}; read it, then: enginehouse plan {file}")


class refusals_shown:
    """Prints refusals raised inside, as text or JSON, and ends with exit code 1."""

    def __init__(self, inventory: str, as_json: bool) -> None:
        self.inventory, self.as_json = inventory, as_json

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, Refusal):
            return
        problems = error.problems if isinstance(error, Refusals) else (error,)
        if self.as_json:
            found = {"inventory": self.inventory, "refusals": [problem.to_json() for problem in problems]}
            click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        else:
            click.echo(f"{self.inventory}: {error}" if self.inventory and len(problems) > 1 else str(error), err=True)
        sys.exit(REFUSED)


def show(renderable: Any) -> None:
    """Prints in colour and at its width on a terminal, plain and 120 wide elsewhere."""
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(renderable)


if __name__ == "__main__":
    main()
