"""Judges if this host's GPUs are fit for a start: ECC, remapped rows, Xid messages of the driver.

    host gpu-state gate SERVER     before each swap: exit 1 and a verdict with the reason, if a GPU of SERVER is not fit
    host gpu-state metrics         run by a timer: ROOT/metrics/gpu.prom for node_exporter's textfile collector
    host gpu-state mended          typed by a person after a reset: Xid messages before now no longer count

The remedy of each Xid is in /etc/enginehouse/gpu_state.json (from the catalogue), with the GPUs of each server. A host
without nvidia-smi passes. Only messages of the kernel since boot count, or of root in the kernel's name: `logger -t
kernel 'NVRM: Xid (PCI:0000:01:00): 79, drill'` rehearses a fault.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from host import disk, nvidia_smi, places, systemd
from host.nvidia_smi import NoAnswer

FIELDS = (
    *("index", "pci.bus_id", "ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.aggregate.total"),
    *("remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure", "retired_pages.pending"),
    "gpu_recovery_action",
)
"""Fields of a query. An H100 with driver 580.159.04 answers (2026-11-21): numbers, Yes or No, [N/A], and None without a
recovery action."""
PLACES = 2
"""Number of leading fields that identify the GPU; an answer without these is no answer."""
UNKNOWN = re.compile(r'Field "([^"]+)" is not a valid field to query')
RECOVERIES = {"reset": "reset", "drain and reset": "reset", "drain p2p": "reset", "reboot": "boot"}
XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)[^)]*\): (\d+)")
METRICS = (
    ("ecc_uncorrected_volatile", FIELDS[2], "Uncorrected memory errors since the driver was loaded."),
    ("ecc_uncorrected_total", FIELDS[3], "Uncorrected memory errors in the card's life."),
    ("remapped_rows_uncorrectable", FIELDS[4], "Rows of memory remapped after uncorrectable errors."),
    ("remap_pending", FIELDS[5], "1 if rows wait to be remapped at a reset."),
    ("remap_failed", FIELDS[6], "1 if a row could not be remapped."),
)
MENDED = f"python3 -B {places.PROGRAMS}/host gpu-state mended"
ATTEMPTS = {
    "reset": "systemctl stop triton@{server} && nvidia-smi --gpu-reset -i {gpu} && " + MENDED + ", then run again",
    "boot": "reboot the host (a virtual machine: stop and start it at the provider), and run again",
    "vendor": "ask the provider for another card: nvidia-bug-report.sh collects the data for the provider",
}

Row = dict[str, str]
"""nvidia-smi's answer about one GPU, by its own names of the fields."""
Problem = tuple[int, str, str]


def main(arguments: list[str]) -> int:
    """0; for the gate 1 if a GPU is not fit."""
    verb = arguments[0]
    if verb == "mended":
        (places.ROOT / "xids-mended").write_text(f"{time.time():.6f}\n")
        return 0
    if not shutil.which("nvidia-smi"):
        return 0
    settings = json.loads((places.SETTINGS / "gpu_state.json").read_text())
    return gate(arguments[1], settings) if verb == "gate" else metrics(settings)


def gate(server: str, settings: dict[str, Any]) -> int:
    """The exit status: 0 if each GPU of the server is healthy."""
    wanted = settings["servers"].get(server, [])
    if not wanted:
        return 0
    try:
        gpus = read_gpus()
        problems = [problem for gpu in wanted for problem in problems_of(gpu, gpus, settings["xids"])]
    except NoAnswer as silent:
        problems = [(wanted[0], f"nvidia-smi says: {silent}", "boot")]
    if problems:
        refuse(server, problems)
    return 1 if problems else 0


def problems_of(gpu: int, gpus: list[Row], xids: dict[str, Any]) -> list[Problem]:
    """The problems of a GPU, as (number of the GPU, observation, needed action); the worst action first."""
    row = next((row for row in gpus if row["index"] == str(gpu)), None)
    if row is None:
        return [(gpu, f"nvidia-smi lists {len(gpus)} GPUs, without this GPU", "boot")]
    problems = [(gpu, seen, remedy) for seen, remedy in [*problems_of_row(row), *problems_of_xids(row, xids)]]
    return sorted(problems, key=lambda problem: ("vendor", "boot", "reset").index(problem[2]))


def problems_of_row(row: Row) -> Iterator[tuple[str, str]]:
    """The problems of a GPU by nvidia-smi, with the action that each needs."""
    if is_yes(row["remapped_rows.failure"]):
        yield "a row of its memory could not be remapped", "vendor"
    if is_yes(row["remapped_rows.pending"]) or is_yes(row["retired_pages.pending"]):
        yield "rows of its memory wait to be remapped at a reset", "reset"
    advice = row["gpu_recovery_action"]
    if advice.lower() in RECOVERIES:
        yield f"the driver's recovery action is {advice}", RECOVERIES[advice.lower()]
    if errors := count(row["ecc.errors.uncorrected.volatile.total"]):
        yield f"{errors} uncorrected memory errors since the driver was loaded", "reset"


def problems_of_xids(row: Row, xids: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for xid, when in read_xids().get(place(row["pci.bus_id"]), []):
        known = xids.get(str(xid))
        if known and known["stops"]:
            at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(when))
            yield f"Xid {xid}, {known['means']} ({at})", known["remedy"]


def refuse(server: str, problems: list[Problem]) -> None:
    """Prints the reason to the journal, and writes it to the verdict for the swap's caller."""
    gpu, _, remedy = problems[0]
    serves = systemd.systemctl("is-active", "--quiet", f"triton@{server}.service") == 0
    state = "the serving release stays in service" if serves else "nothing serves"
    reason = "\n".join(
        [
            *(f"  seen    GPU {number}: {seen}" for number, seen, _ in problems[:6]),
            "  wanted  no uncorrected error, no row to remap, and no Xid since boot that needs a reset",
            f"  try     {ATTEMPTS[remedy].format(server=server, gpu=gpu)}",
            f"  state   the swap did not begin; {state}",
        ]
    )
    sentence = f"GPU {gpu} is not fit to start a release on"
    verdict = {"server": server, "result": "unchanged", "sentence": sentence, "reason": reason}
    disk.replace(places.server(server) / "verdict.json", json.dumps(verdict) + "\n")
    print(f"{sentence}\n{reason}", file=sys.stderr)


def read_gpus() -> list[Row]:
    """A row for each GPU, with fields under nvidia-smi's names. Raises NoAnswer if the tool fails or hangs.

    A driver too old for a field refuses the whole query and names the field, so the query is repeated without it. A GPU
    whose driver cannot report a value is not refused for that.
    """
    fields: tuple[str, ...] = FIELDS
    while True:
        try:
            return queried(fields)
        except NoAnswer as silent:
            unknown = UNKNOWN.search(str(silent))
            if not unknown or unknown[1] not in fields[PLACES:]:
                raise
            fields = tuple(field for field in fields if field != unknown[1])


def queried(fields: tuple[str, ...]) -> list[Row]:
    """The rows of one query; fields that were not queried are "[N/A]"."""
    rows = nvidia_smi.query(f"--query-gpu={','.join(fields)}")
    return [dict.fromkeys(FIELDS, "[N/A]") | dict(zip(fields, row, strict=False)) for row in rows]


def read_xids() -> dict[str, list[tuple[int, float]]]:
    """Xid messages since boot, or since `mended`: (number, time) by PCI address (0000:01:00)."""
    try:
        since = float((places.ROOT / "xids-mended").read_text())
    except (OSError, ValueError):
        since = 0.0
    journal = ["journalctl", "-q", "-b", "--no-pager", "-o", "json", "--output-fields=MESSAGE"]
    writers = ["SYSLOG_IDENTIFIER=kernel", "_TRANSPORT=kernel", "+", "SYSLOG_IDENTIFIER=kernel", "_UID=0"]
    ran = subprocess.run([*journal, *writers], capture_output=True, text=True, errors="replace", check=False)
    xids: dict[str, list[tuple[int, float]]] = {}
    for line in ran.stdout.splitlines():
        if "NVRM: Xid" not in line:
            continue
        entry = json.loads(line)
        when, message = int(entry["__REALTIME_TIMESTAMP"]) / 1e6, XID.search(str(entry["MESSAGE"]))
        if message and when > since:
            xids.setdefault(place(message[1]), []).append((int(message[2]), when))
    return xids


def place(address: str) -> str:
    """A PCI address as nvidia-smi (00000000:01:00.0) or the kernel (0000:01:00) writes it, in one form."""
    domain, bus, device = address.lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{device.split('.')[0]}"


def metrics(settings: dict[str, Any]) -> int:
    """Writes gpu.prom again, even without an answer of nvidia-smi, which is a metric too."""
    try:
        gpus, answers = read_gpus(), 1
    except NoAnswer:
        gpus, answers = list[Row](), 0
    xids = read_xids()
    lines = ["# HELP enginehouse_gpu_answers 1 if nvidia-smi answers.", "# TYPE enginehouse_gpu_answers gauge"]
    lines.append(f"enginehouse_gpu_answers {answers}")
    for name, field, meaning in METRICS:
        lines += [f"# HELP enginehouse_gpu_{name} {meaning}", f"# TYPE enginehouse_gpu_{name} gauge"]
        lines += [f'enginehouse_gpu_{name}{{gpu="{row["index"]}"}} {number(row[field])}' for row in gpus]
    lines += ["# HELP enginehouse_gpu_xids Xid messages of the driver since boot.", "# TYPE enginehouse_gpu_xids gauge"]
    for where, numbers in sorted(xids.items()):
        for xid in sorted({number for number, _ in numbers}):
            times, known = sum(number == xid for number, _ in numbers), settings["xids"].get(str(xid), {})
            labels = f'pci="{where}",xid="{xid}",remedy="{known.get("remedy", "unknown")}"'
            lines.append(f"enginehouse_gpu_xids{{{labels}}} {times}")
    (places.ROOT / "metrics").mkdir(exist_ok=True)
    disk.replace(places.ROOT / "metrics" / "gpu.prom", "\n".join(lines) + "\n")
    return 0


def count(text: str) -> int:
    return int(text) if text.isdigit() else 0


def is_yes(text: str) -> bool:
    return text.lower() == "yes"


def number(text: str) -> int:
    return 1 if is_yes(text) else count(text)
