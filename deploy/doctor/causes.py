"""Why a server or a build did not come up, from fixed phrases in its log. Only the phrases leave a host, never a line.

The phrases are those of CUDA, TensorRT ("not compatible with this version of TensorRT"), TensorRT-LLM ("Error opening
engine file"), NCCL, Python and runc, as issue threads and guides quote them (read 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.readings import Readings, number

PHRASES = {
    "cause-memory": ("CUDA out of memory", "OutOfMemoryError", "Out of GPU memory", "CUDA error: out of memory"),
    "cause-engine": ("Error opening engine file", "engine file not found"),
    "cause-gpu": (
        "invalid device function",
        "no kernel image is available for execution on the device",
        "unsupported SM version",
    ),
    "cause-version": ("not compatible with this version of TensorRT", "could not find plugin", "Plugin not found"),
    "cause-module": ("No module named '[A-Za-z0-9_.]{1,60}'", "cannot import name '[A-Za-z0-9_.]{1,60}'"),
    "cause-image": ("tritonserver: (command )?not found", '"tritonserver": executable file not found'),
    "cause-nccl": ("Error while creating shared memory segment", "ncclSystemError", "ncclUnhandledCudaError"),
}
"""Extended regular expressions for grep, by the finding they are the cause of."""
PATTERN = "|".join(phrase for phrases in PHRASES.values() for phrase in phrases)
_COUNTED = re.compile(r"\s*([0-9]{1,9})\s+(.*)")
_IN_TROUBLE = (
    *("unit-failed", "job-failed", "unit-stopped", "unit-starting", "unit-restarted", "swap-refused", "swap-cut"),
    *("model-not-ready", "server-silent", "server-missing", "watchdog-gave-up", "watchdog-restarted"),
)


def cause_findings(readings: Readings, others: Iterable[Finding]) -> Iterator[Finding]:
    """The causes in the logs of servers and builds, from lines `COUNT PHRASE`; notes where nothing of `others` suffers.

    A server that runs out of memory while it answers others is in trouble by that alone.
    """
    is_troubled = any(finding.id in _IN_TROUBLE for finding in others)
    for line in readings.lines("causes"):
        if not (counted := _COUNTED.fullmatch(line)):
            continue
        kind = next((kind for kind, phrases in PHRASES.items() if re.search("|".join(phrases), counted[2])), "")
        evidence = f"{counted[2]} ({number(counted[1])} times within a day)"
        if kind and (is_troubled or kind == "cause-memory"):
            yield finding_of(kind, evidence)
        elif kind:
            yield finding_of("cause-past", evidence)
