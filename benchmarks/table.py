"""The result as a readable table: one line a case, ours beside naive beside the limit."""

from typing import Any

HEAD = (
    "case",
    "naive",
    "ours",
    "FP8",
    "HTTP",
    "limit",
    "of limit",
    "x naive",
    "p50 ms",
    "p95",
    "p99",
    "tokens/s",
    "cores",
)


def text(result: dict[str, Any]) -> str:
    """Returns documents a second of both sides and of the limit, with milliseconds and host cores of ours."""
    lines = [HEAD, *(_row(row) for row in result["cases"])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    drawn = [_joined(line, widths) for line in lines]
    limits = ", ".join(f"{name} {value}" for name, value in result["limit_tflops"].items())
    start, memory = result["start_to_ready_seconds"], result["memory"]
    return "\n".join([
        *drawn,
        f"matrix products, TFLOP/s: {limits}",
        f"start to ready: {start['first']} s, again {start['again']} s",
        f"GPU memory: {memory['held_after_start_mib']} MiB after start, {memory['planned_mib']} MiB planned",
    ])  # fmt: skip


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    ours, naive = row["ours"], row.get("naive")
    rate = ours["documents_per_second"]
    return (
        row["name"],
        f"{naive['documents_per_second']:,.0f}" if naive else "–",
        f"{rate:,.0f}",
        *(f"{row[side]['documents_per_second']:,.0f}" if side in row else "–" for side in ("fp8", "ours_http")),
        f"{row['limit_documents_per_second']:,.0f}",
        f"{ours['share_of_bf16_limit']:.0%}",
        f"{rate / naive['documents_per_second']:.1f}" if naive and naive["documents_per_second"] else "–",
        *(f"{ours[key]:.1f}" for key in ("p50_ms", "p95_ms", "p99_ms")),
        f"{ours['tokens_per_second']:,}",
        f"{ours['server_cores']:.1f}",
    )


def _joined(words: tuple[str, ...], widths: list[int]) -> str:
    first, *others = (word.rjust(width) for word, width in zip(words, widths, strict=True))
    return "  ".join([first.strip().ljust(widths[0]), *others])
