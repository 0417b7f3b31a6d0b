"""What verbs print: refusals as text or JSON with exit code 1, and tables."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from deploy.refusals.errors import Refusal, Refusals

REFUSED = 1


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
            report = {"inventory": self.inventory, "refusals": [problem.to_json() for problem in problems]}
            click.echo(json.dumps(report, indent=2, ensure_ascii=False))
        else:
            click.echo(f"{self.inventory}: {error}" if self.inventory and len(problems) > 1 else str(error), err=True)
        sys.exit(REFUSED)


def show(renderable: Any) -> None:
    """Prints in colour and at its width on a terminal, plain and 120 wide elsewhere."""
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(renderable)
