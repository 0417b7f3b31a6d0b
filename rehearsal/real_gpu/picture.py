"""Draws the plan's memory bar and a real card's measured one as SVG, from a report or a step's file.

    python -m rehearsal.real_gpu.picture benchmarks/results/h100-deploy.json memory.svg

Both bars share one scale, whose full width is what CUDA can use of the card. Equal files give equal bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.chart import TEXT, words

WIDTH, LEFT, RIGHT = 860, 90, 20
BAR, GAP, TOP, LINE = 34, 10, 44, 18
COLUMNS = (430, 560, 680)
OWN, WORKSPACE = "#8a8f98", "#c9a227"
MODELS = ("#b5651d", "#7b4fd0", "#2f6fde", "#2a9d5c")
Record = dict[str, Any]
Segment = tuple[str, int, int, str, str]
"""Name, MiB planned, MiB measured, colour, and a remark."""


def svg(step: Record) -> str:
    """Returns the picture of the findings of the step `memory`."""
    results = step["found"]
    parts, usable = segments(results), results["sum"]["usable_mib"]
    below = TOP + 2 * (BAR + GAP) + LINE
    height = below + LINE * (len(parts) + 2) + 30
    lines = [*_head(step, height)]
    for number, (label, column) in enumerate((("plan", 1), ("measured", 2))):
        lines += _bar(label, [(part[column], part[3]) for part in parts], usable, TOP + number * (BAR + GAP))
    lines += _table(parts, results["sum"], below)
    machine = step["machine"]
    where = ", ".join(str(machine[key]) for key in ("gpu", "driver") if key in machine) or machine["cpu"]
    return "\n".join([*lines, words(12, height - 10, f"{step['began'][:10]} · {where}"), "</svg>", ""])


def segments(results: Record) -> list[Segment]:
    """Returns tritonserver, each model, and the LLM's workspace; the remark says if the plan has an allowance."""
    own = results["tritonserver"]
    parts: list[Segment] = [("tritonserver", own["planned_mib"], own["measured_mib"], OWN, "allowance")]
    for row, colour in zip(results["models"], MODELS, strict=False):
        parts.append((row["model"], row["planned_mib"], row["measured_mib"], colour, f"{row['off_percent']:+.1f} %"))
        if "workspace" in row:
            taken = row["workspace"]["taken_by_the_stand_in_mib"]
            label = f"{row['model']}, while it generates"
            parts.append((label, row["workspace"]["allowance_mib"], taken, WORKSPACE, "allowance"))
    return parts


def _head(step: Record, height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="GPU memory of each model: plan and measurement">'
    )
    yield words(12, 20, f"GPU memory in MiB; full width: {step['found']['sum']['usable_mib']:,} for CUDA")


def _bar(label: str, parts: list[tuple[int, str]], usable: int, y: int) -> Iterator[str]:
    scale = (WIDTH - LEFT - RIGHT) / usable
    yield words(LEFT - 10, y + BAR // 2 + 4, label, anchor="end")
    yield (
        f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{BAR}" fill="none" stroke="{TEXT}" '
        'stroke-width="0.5"/>'
    )
    x = float(LEFT)
    for size, colour in parts:
        yield f'<rect x="{x:.1f}" y="{y}" width="{max(0.0, size * scale):.1f}" height="{BAR}" fill="{colour}"/>'
        x += max(0.0, size * scale)


def _table(parts: list[Segment], total: Record, y: int) -> Iterator[str]:
    for x, text in zip(COLUMNS, ("plan", "measured", "off"), strict=True):
        yield words(x, y, text, anchor="end")
    for number, (label, planned, measured, colour, remark) in enumerate(parts, start=1):
        line = y + number * LINE
        yield f'<rect x="{LEFT}" y="{line - 9}" width="10" height="10" fill="{colour}"/>'
        yield words(LEFT + 15, line, label)
        for x, text in zip(COLUMNS, (f"{planned:,}", f"{measured:,}", remark), strict=True):
            yield words(x, line, text, anchor="end")
    line = y + (len(parts) + 1) * LINE
    yield words(LEFT + 15, line, "sum")
    for x, value in zip(COLUMNS, (total["planned_mib"], total["measured_mib"]), strict=False):
        yield words(x, line, f"{value:,}", anchor="end")


def memory_step(text: str) -> Record:
    """Returns the step `memory` of a report, or of its own file."""
    record = json.loads(text)
    return dict(next(step for step in record.get("steps", [record]) if step["step"] == "memory"))


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(svg(memory_step(Path(sys.argv[1]).read_text("utf-8"))), "utf-8")
