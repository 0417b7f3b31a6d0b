"""Pictures of the rehearsal: `enginehouse top` while an alert fires, and Prometheus' own pages in a browser.

    python -m tests.monitoring.live.pictures LOOK SVG     draws an earlier run's values (build/monitoring/look.json)

The browser is Chromium of the outer machine without a screen.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from deploy.monitoring.top import HostRow, ServerRow, Snapshot, table
from rehearsal.places import REPOSITORY
from rehearsal.requirements import browser
from tests.monitoring.live.scene import INVENTORY
from tests.rollouts.demo import FORMAT

SHOWN = "ModelSilent"
"""The alert during which `top` is drawn."""
PICTURES, KEPT = REPOSITORY / "rehearsal", REPOSITORY / "build" / "watched"
WIDTH = 118
MOST_BYTES = 200_000
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'
GRAPH = {"g0.expr": FIRING, "g0.tab": "0", "g0.stacked": "0", "g0.range_input": "10m"}
DURING = {"prometheus-alerts.png": ("/classic/alerts", (1000, 560))}
AFTERWARDS = {
    "prometheus-faults.png": (f"/classic/graph?{urllib.parse.urlencode(GRAPH)}", (1000, 960)),
    "prometheus-targets.png": ("/classic/targets", (1200, 900)),
}
"""Pages drawn after the fault. Debian's Prometheus (2.42) has only the older ones."""


def top() -> None:
    """Writes rehearsal/top.svg from the current output of `enginehouse top`."""
    words = [str(Path(sys.executable).with_name("enginehouse")), "top", INVENTORY, "--json"]
    ran = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    output = ran.stdout
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / "look.json").write_text(output)
    (PICTURES / "top.svg").write_text(svg(look_of(json.loads(output))))


def svg(look: Snapshot) -> str:
    """Returns the picture; equal values give equal bytes."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("$ enginehouse top inventories/fleet.py --once\n", style="bold"))
    console.print(table(look))
    return console.export_svg(title="enginehouse top", unique_id="top", code_format=FORMAT)


def pages(url: str, wanted: Mapping[str, tuple[str, tuple[int, int]]]) -> None:
    """Writes pictures of Prometheus' own pages, each small enough for a README."""
    for name, (path, size) in wanted.items():
        shot(f"{url}{path}", PICTURES / name, size)
        assert 5_000 < (PICTURES / name).stat().st_size < MOST_BYTES, name


def shot(url: str, place: Path, size: tuple[int, int]) -> None:
    """Writes a picture of the page to the file, five seconds after loading."""
    width, height = size
    with tempfile.TemporaryDirectory() as profile:
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-proxy-server"]
        words += [f"--user-data-dir={profile}", f"--window-size={width},{height}", "--virtual-time-budget=5000"]
        command = [browser() or "chromium", *words, f"--screenshot={place}", url]
        subprocess.run(command, check=True, capture_output=True, timeout=90)


def look_of(answer: dict[str, Any]) -> Snapshot:
    """Reverses `to_json`."""
    hosts = {
        name: HostRow(
            row["answers"], {key: ServerRow(**server) for key, server in row["servers"].items()}, row["figures"]
        )
        for name, row in answer["hosts"].items()
    }
    alerts = tuple((alert["host"], alert["alert"], alert["severity"]) for alert in answer["alerts"] or ())
    return Snapshot(answer["source"], hosts, alerts)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(svg(look_of(json.loads(Path(sys.argv[1]).read_text()))))
