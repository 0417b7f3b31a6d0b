"""A bench result as an SVG: one row per load and latency, with the median, 95th and 99th percentile."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

WIDTH, LEFT, RIGHT, ROW, TOP = 900, 360, 90, 24, 56
LATENCIES = (("first_token", "first token"), ("gap", "gap"), ("whole", "whole"))
COLOURS = {"p50": "#1f6f4a", "p95": "#c98a1b", "p99": "#b03a2e"}
INK, PAPER, LINE = "#222222", "#ffffff", "#dddddd"


def picture(result: Mapping[str, Any]) -> str:
    """The SVG's text. Each row's scale goes from 0 to the slowest percentile of its load."""
    rows = list(_rows(result))
    height = TOP + ROW * len(rows) + 20
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">'
    title = f"{result['machine']['card']}, release {result['release']}, {result['date']}: milliseconds"
    parts = [head, f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>', _text(12, 22, title, 14)]
    for place, (name, colour) in enumerate(COLOURS.items()):
        at = LEFT + 70 * place
        parts += [f'<circle cx="{at}" cy="40" r="5" fill="{colour}"/>', _text(at + 9, 44, name, 11)]
    for place, (label, figures) in enumerate(rows):
        parts += list(_row(TOP + ROW * place + ROW / 2, label, figures))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rows(result: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, float]]]:
    for case in result["cases"]:
        for name, label in LATENCIES:
            figures = {
                percentile: case["median"][f"{name}_{percentile}_ms"]
                for percentile in COLOURS
                if f"{name}_{percentile}_ms" in case["median"]
            }
            if figures:
                yield f"{case['model']}, {case['name']}: {label}", figures


def _row(middle: float, label: str, figures: Mapping[str, float]) -> Iterator[str]:
    most = max(figures.values()) or 1.0
    room = WIDTH - LEFT - RIGHT
    yield _text(12, middle + 4, label if len(label) < 62 else f"{label[:60]}…", 11)
    yield f'<line x1="{LEFT}" y1="{middle:g}" x2="{LEFT + room}" y2="{middle:g}" stroke="{LINE}"/>'
    for name, value in sorted(figures.items(), reverse=True):
        at = LEFT + room * value / most
        yield f'<circle cx="{at:.1f}" cy="{middle:g}" r="5" fill="{COLOURS[name]}"/>'
    yield _text(LEFT + room + 10, middle + 4, f"{most:,.4g}", 11)


def _text(x: float, y: float, words: str, size: int) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{INK}">{escape(words)}</text>'
