"""Draws a canary that fails its gate while clients continue to ask: `make demo`.

    python -m tests.rollouts.demo              plays it on rehearsal machines and draws rehearsal/rollout.svg
    python -m tests.rollouts.demo EVENTS SVG   draws an earlier run's events

Each event is a line of JSON on standard output: seconds, requests sent and lost until then, a host and its state, or
the run's output.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import fleet
from rehearsal.places import REPOSITORY, RehearsalRefused
from tests.rollouts.cases import CASES
from tests.rollouts.conftest import ready
from tests.rollouts.scene import HOSTS, Scene, played, written
from tests.rollouts.timeline import Event

PICTURE = REPOSITORY / "rehearsal" / "rollout.svg"
CASE = "canary-wrong"
TOLD = ("Model store | Send", "Gate | Every host has", "Triton | Swap", "Gate | Wave")
WORDS = {
    "UP": ("serves", "green"),
    "DRAIN": ("drains", "yellow"),
    "DOWN": ("is out", "yellow"),
    "MAINT": ("is out", "yellow"),
}
WIDTH = 112
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""A picture without fonts from other sites; the reader's own monospace font is used."""


def main(words: Sequence[str]) -> int:
    """Returns 0 if the picture is drawn and no request was lost."""
    if len(words) == 2:
        events = [json.loads(line) for line in Path(words[0]).read_text().splitlines()]
        Path(words[1]).write_text(svg(events))
        return 0
    try:
        events = acted()
    except RehearsalRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    PICTURE.write_text(svg(events))
    print(f"drawn: {PICTURE.relative_to(REPOSITORY)}", file=sys.stderr)
    return 1 if events[-1]["lost"] else 0


def acted() -> list[Event]:
    """Returns events in order: the failed run, and the plain run after it."""
    events = list[Event]()

    def tell(event: Event) -> None:
        events.append(event)
        print(json.dumps(event), flush=True)

    with ExitStack() as stack:
        serving, edge = stack.enter_context(fleet.up(len(HOSTS), 1, "12"))
        scene = ready(Scene(serving, edge[0]))
        written(played(scene, next(case for case in CASES if case.name == CASE), tell), events)
    return events


def svg(events: Sequence[Event]) -> str:
    """Returns the picture of these events until the run failed; equal events give equal bytes."""
    failed = next(number for number, event in enumerate(events) if "said" in event)
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("$ pyinfra inventories/fleet.py deploy.py -y", style="bold"))
    console.print(Text("wave 1: h1   wave 2: h2   wave 3: h3   at most one of them out; clients ask all the while\n"))
    console.print(_table(events[:failed]))
    console.print()
    for line in events[failed]["said"]:
        console.print(Text(line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…", style="red"))
    last = events[failed]
    console.print(Text(f"\n{last['sent']:,} requests sent, {last['lost']} lost", style="bold green"))
    return console.export_svg(title="enginehouse: a canary that is wrong", unique_id="rollout", code_format=FORMAT)


def _table(events: Sequence[Event]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("seconds", *HOSTS, "sent", "lost", "the run"):
        table.add_column(name, justify="right" if name in ("seconds", "sent", "lost") else "left", no_wrap=True)
    for row in _rows(events):
        table.add_row(*row)
    return table


def _rows(events: Sequence[Event]) -> Iterator[list[Text]]:
    now: dict[str, str] = {}
    for event in events:
        what = event.get("operation", "")
        host, state = event.get("host", ""), event.get("state")
        if host in HOSTS:
            if state == "DRAIN" and now.get(host) in ("DOWN", "MAINT"):
                continue  # it listens again, but is not ready yet
            now[host] = event["state"]
        if len(now) < len(HOSTS) or not (host in HOSTS or what.startswith(TOLD)):
            continue
        states = [WORDS.get(now[name], (now[name], "red")) for name in HOSTS]
        figures = [Text(f"{event['sent']:,}"), Text(str(event["lost"]), style="green" if not event["lost"] else "red")]
        yield [
            Text(f"{event['seconds']:.1f}"),
            *(Text(word, style=style) for word, style in states),
            *figures,
            Text(what[:60]),
        ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
