"""Rehearsal stand-in of dcgm-exporter: the counters of the role's list, on the exporter's port, for a fake card.

    python3 dcgm_exporter.py COUNTERS PORT

Names come from the list, labels from tests/monitoring/scrapes/dcgm.prom. The values are invented.
"""

from __future__ import annotations

import http.server
import sys
from pathlib import Path

LABELS = 'gpu="0",UUID="GPU-0",pci_bus_id="00000000:01:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3"'
VALUES = {
    "DCGM_FI_DEV_SM_CLOCK": 1755,
    "DCGM_FI_DEV_GPU_TEMP": 48,
    "DCGM_FI_DEV_POWER_USAGE": 312,
    "DCGM_FI_DEV_FB_FREE": 40_000,
    "DCGM_FI_DEV_FB_USED": 41_081,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.43,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.21,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.3,
}
WINDOW = 'window_size_in_ms="300000"'
SERIES = {
    # A busy card slows down at its power limit, which is no fault. The series of an Xid exists only once one has
    # occurred.
    "DCGM_EXP_CLOCK_EVENTS_COUNT": [
        (f'clock_event="power_cap",{WINDOW}', 3),
        (f'clock_event="hw_thermal",{WINDOW}', 0),
    ],
    "DCGM_EXP_XID_ERRORS_COUNT": [],
}


def page(counters: str) -> str:
    """Returns the page that Prometheus reads; `counters` is the text of the list."""
    lines = []
    for row in counters.splitlines():
        if row.startswith("#") or not row.strip():
            continue
        name, kind, text = (part.strip() for part in row.split(",", 2))
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        for more, value in SERIES.get(name, [("", VALUES.get(name, 0))]):
            lines.append(f"{name}{{{LABELS}{',' if more else ''}{more}}} {value}")
    return "\n".join(lines) + "\n"


class Page(http.server.BaseHTTPRequestHandler):
    """Serves the page at every path."""

    text = b""

    def do_GET(self) -> None:
        """Sends the whole page."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.text)

    def log_message(self, *_: object) -> None:
        """Keeps scrapes out of the journal."""


if __name__ == "__main__":
    Page.text = page(Path(sys.argv[1]).read_text()).encode()
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Page).serve_forever()
