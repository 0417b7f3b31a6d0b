"""Output of the verbs: refusals as text or JSON with exit code 1, and tables.

Texts of hosts, registries and pastes reach the terminal as plain text: their escapes and markup have no effect.
"""

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from deploy.refusals import Refusal, Refusals, refuse, visible

REFUSED = 1


class refusals_shown:
    """Prints refusals raised inside, as text or JSON, and ends with exit code 1."""

    def __init__(self, inventory: str, as_json: bool) -> None:
        self.inventory, self.as_json = inventory, as_json

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError) and isinstance(error.filename, str) and error.strerror:
            error = _file_refused(error.filename, error.strerror)
        if not isinstance(error, Refusal):
            return
        problems = error.problems if isinstance(error, Refusals) else (error,)
        if self.as_json:
            report = {"inventory": self.inventory, "refusals": [problem.to_json() for problem in problems]}
            say(json.dumps(report, indent=2, ensure_ascii=False))
        else:
            say(f"{self.inventory}: {error}" if self.inventory and len(problems) > 1 else str(error), err=True)
        sys.exit(REFUSED)


def _file_refused(file: str, reason: str) -> Refusal:
    return refuse(
        "file-refused",
        f"{file}: {reason}",
        where=file,
        seen=reason,
        wanted="a path that this user may use, in a directory that is there",
        attempt=f"ls -ld {shlex.quote(str(Path(file).parent))} {shlex.quote(file)}",
    )


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """Prints the text, or JSON; terminal control characters are escaped."""
    click.echo(visible(text), err=err, nl=nl)


def show(renderable: Any) -> None:
    """Prints with colour at a terminal's width; elsewhere plain and 120 columns wide."""
    console().print(Visible(renderable))


def console() -> Any:
    """A rich console that prints brackets and colons of foreign texts unchanged."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 120)


@dataclass(frozen=True)
class Visible:
    """Anything that rich prints, with terminal control characters escaped; rich's own colours stay."""

    renderable: Any

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.segment import Segment

        for segment in console.render(self.renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
