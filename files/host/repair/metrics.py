"""The state of this host's repairs for Prometheus."""

from __future__ import annotations

from typing import Any

ROWS = (
    ("needed", "1 while a GPU of this host needs a repair.", "why"),
    ("waits", "1 while a repair is needed and may not begin yet.", "waits"),
    ("active", "1 while the host is out for a repair.", "phase"),
    ("person", "1 while the repair is left to a person.", "person"),
)


def metrics(record: dict[str, Any]) -> str:
    """The state as lines of the text format."""
    lines = []
    for name, meaning, key in ROWS:
        lines += [f"# HELP enginehouse_repair_{name} {meaning}", f"# TYPE enginehouse_repair_{name} gauge"]
        lines.append(f"enginehouse_repair_{name} {int(bool(record[key]))}")
    lines += ["# HELP enginehouse_repair_looked_timestamp_seconds Time when the GPUs were last checked."]
    lines += ["# TYPE enginehouse_repair_looked_timestamp_seconds gauge"]
    lines.append(f"enginehouse_repair_looked_timestamp_seconds {record['looked']:.0f}")
    lines += ["# HELP enginehouse_repairs_total Repairs by remedy and result."]
    lines += ["# TYPE enginehouse_repairs_total counter"]
    for remedy in ("reset", "reboot"):
        for result in ("repaired", "failed"):
            count = record["totals"].get(f"{remedy} {result}", 0)
            lines.append(f'enginehouse_repairs_total{{remedy="{remedy}",result="{result}"}} {count}')
    return "\n".join(lines) + "\n"
