"""The verb `enginehouse migrate`."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from deploy.io.printing import REFUSED, refusals_shown, say
from deploy.refusals import on_one_line

LEFT_OUT = 2


@click.command(
    short_help="Turn a command of vLLM, SGLang, TGI, TEI or NIM into an inventory.",
    epilog="Example: enginehouse migrate 'vllm serve Qwen/Qwen3-8B --max-model-len 32k'",
)
@click.argument("pasted", metavar="TEXT_OR_FILE")
@click.option("--to", type=click.Path(path_type=Path), help="Write the inventory to this file, unless it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def migrate(pasted: str, to: Path | None, as_json: bool) -> None:
    """Map each word of another server's command to its place in an inventory, and print the inventory.

    Takes a line, a script, docker run, a compose file or a Kubernetes manifest with vLLM, SGLang, TGI, TEI, NIM or
    trtllm-serve in it. Ends with 0 if every word has a place, and with 2 otherwise. Nothing is run.
    """
    from deploy.io.pasted_text import text_of
    from deploy.migrate.migration import migrate as migrated

    with refusals_shown("", as_json):
        migration = migrated(text_of(pasted, "migrate"))
        if to and to.exists():
            say(f"{to} is there already and is left as it is; --to another file, or no --to to read it here", err=True)
            sys.exit(REFUSED)
        if to:
            to.write_text(migration.inventory, "utf-8")
    if as_json:
        say(json.dumps(asdict(migration), indent=2, ensure_ascii=False))
    else:
        for finding in migration.findings:
            mark = "here " if finding.place else "none " if finding.is_known else "?    "
            say(f"{mark} {on_one_line(finding.words)}\n        {on_one_line(finding.place or finding.why)}")
        say(f"\nwrote {to}" if to else f"\n{migration.inventory}", nl=bool(to))
    sys.exit(0 if migration.is_whole else LEFT_OUT)
