"""The verb `enginehouse promote`: the plan that moves an LLM to another program, and the commands for it."""

import json
import re

import click

from deploy.cli.knobs import knobs
from deploy.inventory.promotion import RUNTIMES, Promotion
from deploy.io.inventory import load_plan
from deploy.io.printing import refusals_shown, say, show
from deploy.refusals import Refusal, Refusals


@click.command(
    short_help="Plan an LLM's move to another program, compared by its replay.",
    epilog="Example: enginehouse promote inventories/h100_vllm.py llama-3.1-8b-instruct --to trtllm-serve",
)
@click.argument("inventory")
@click.argument("model")
@click.option(
    "--to", "runtime", type=click.Choice(RUNTIMES), required=True, help="The program that will serve the LLM."
)
@click.option("--image", default="", help="That program's image, NAME:TAG or with its digest; else the catalog's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--data", multiple=True, help="KEY=VALUE that overrides the inventory.")
def promote(inventory: str, model: str, runtime: str, image: str, as_json: bool, data: tuple[str, ...]) -> None:
    """Print the changes if another program serves MODEL, the comparison of both programs, and the command to type.

    MODEL is an LLM's name in INVENTORY, with a `Replay` of your prompts; without one, the move is refused.
    Nothing is changed by this verb.
    """
    from deploy.reports.promotion import promotion_report, steps

    promotion = Promotion.to(model, runtime, image)
    with refusals_shown(inventory, as_json):
        now = load_plan(inventory, data, (), knobs())
        try:
            then = load_plan(inventory, (*data, f"promote={promotion.word}"), (), knobs())
        except Refusal as refusal:
            problems = refusal.problems if isinstance(refusal, Refusals) else (refusal,)
            raise Refusals(_of_verb(problem, inventory) for problem in problems) from None
        if as_json:
            typed = dict(steps(then, promotion, inventory))
            say(json.dumps({"now": now.digest, "steps": typed, "plan": then.to_json()}, indent=2, ensure_ascii=False))
        else:
            show(promotion_report(now, then, promotion, inventory))


def _of_verb(problem: Refusal, inventory: str) -> Refusal:
    """The refusal with the words of this verb instead of `--data promote=…`."""
    match = re.fullmatch(r"--data promote=([^:]+):([^:]+)(?::(.+))?", problem.attempt)
    if not match:
        return problem
    image = f" --image {match[3]}" if match[3] else ""
    return Refusal(
        problem.problem,
        facts=problem.facts,
        attempt=f"enginehouse promote {inventory} {match[1]} --to {match[2]}{image}",
        state=problem.state,
        kind=problem.kind,
    )
