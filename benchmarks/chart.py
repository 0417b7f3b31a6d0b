"""Draws the chart of benchmarks/README.md as SVG: documents a second of the naive backend, of ours and of the limit.

    python -m benchmarks.chart benchmarks/results/h100.json docs.svg

Bars of one case share a scale, whose full width is the limit, since cases differ by a factor of ten. Equal files give
equal bytes. Colours keep their contrast on light and dark pages.
"""

import json
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

WIDTH, LEFT, RIGHT = 900, 290, 110
BAR, GAP, BETWEEN, TOP, BOTTOM = 14, 3, 16, 58, 30
SIDES = (
    ("naive", "naive backend", "#b5651d"),
    ("ours", "enginehouse", "#2f6fde"),
    ("fp8", "enginehouse, FP8", "#7b4fd0"),
)
LIMIT = ("limit", "limit: matrix products in bf16", "#8a8f98")
TEXT = "#6e7681"


def svg(result: dict[str, Any]) -> str:
    """Returns the chart of one JSON line of `benchmarks.encoders`; latency cases appear only in the table."""
    rows = [row for row in result["cases"] if not row["is_latency"]]
    sides = [side for side in SIDES if any(side[0] in row for row in rows)]
    height = TOP + sum(_height(row, sides) for row in rows) + BOTTOM
    body, y = [], TOP
    for row in rows:
        body += _case(row, sides, y)
        y += _height(row, sides)
    return "\n".join([*_head(result, sides, height), *body, _foot(result, height), "</svg>", ""])


def _height(row: dict[str, Any], sides: list[tuple[str, str, str]]) -> int:
    return (sum(name in row for name, _, _ in sides) + 1) * (BAR + GAP) + BETWEEN


def _case(row: dict[str, Any], sides: list[tuple[str, str, str]], y: int) -> Iterator[str]:
    limit = row["limit_documents_per_second"]
    bars = [(row[name]["documents_per_second"], colour) for name, _, colour in sides if name in row]
    yield words(LEFT - 10, y + BAR - 2, row["name"], anchor="end")
    for value, colour in [*bars, (limit, LIMIT[2])]:
        length = (WIDTH - LEFT - RIGHT) * min(1.0, value / limit)
        yield f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
        yield words(LEFT + length + 6, y + BAR - 3, f"{value:,.0f}")
        y += BAR + GAP


def _head(result: dict[str, Any], sides: list[tuple[str, str, str]], height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="Documents a second: naive, enginehouse, physical limit">'
    )
    where = result["machine"].get("gpu") or result["machine"]["cpu"]
    yield words(12, 20, f"Documents a second through Triton over gRPC, {where}")
    x = 12
    for _, label, colour in [*sides, LIMIT]:
        yield f'<rect x="{x}" y="32" width="10" height="10" fill="{colour}"/>'
        yield words(x + 15, 41, label)
        x += 35 + 7 * len(label)


def _foot(result: dict[str, Any], height: int) -> str:
    return words(12, height - 10, f"{result['date']} · {result['command']} · medians of {result['runs']} runs")


def words(x: float, y: float, text: str, anchor: str = "start") -> str:
    """Returns a line of text whose baseline begins (or ends, by `anchor`) at this place."""
    return f'<text x="{x:.1f}" y="{y}" fill="{TEXT}" text-anchor="{anchor}">{escape(text)}</text>'


def last_json(text: str) -> dict[str, Any]:
    """Returns the last JSON line of a benchmark's output, or a stored result."""
    stripped = text.strip()
    return dict(json.loads(stripped if stripped.startswith("{") else stripped.splitlines()[-1]))


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(svg(last_json(Path(sys.argv[1]).read_text("utf-8"))), "utf-8")
