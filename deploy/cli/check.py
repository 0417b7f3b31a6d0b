"""The verb `enginehouse check`: judges a pasted command or file."""

import json
import sys

import click

from deploy.catalog import DEFAULT_RELEASE
from deploy.io.printing import REFUSED, refusals_shown, say


@click.command(
    short_help="Judge a pasted command, and print the right one.",
    epilog="Example: enginehouse check 'trtllm-build --max_batchsize 64'",
)
@click.argument("pasted", metavar="TEXT_OR_FILE")
@click.option(
    "--release", default="", help=f"A release ({DEFAULT_RELEASE}) or a TensorRT-LLM version; else the image's."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def check(pasted: str, release: str, as_json: bool) -> None:
    """Judge a command, script, compose file, manifest or config.pbtxt, and print the right one. Nothing is run."""
    from deploy.io.pasted_text import text_of
    from deploy.linter import check as check_text

    with refusals_shown("", as_json):
        verdict = check_text(text_of(pasted), release)
        say(json.dumps(verdict.to_json(), indent=2, ensure_ascii=False) if as_json else str(verdict), nl=as_json)
        sys.exit(0 if verdict.is_fine else REFUSED)
