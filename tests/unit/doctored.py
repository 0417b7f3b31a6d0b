"""A healthy host as the doctor reads it, and the same host with a fault: the start of the doctor's tests.

Sources of the outputs:

    smi            tests/golden/card/query.txt, recorded on one H100 80GB HBM3 with driver 580.159.04 (2026-11-22), up
                   to "Conf Compute"; what follows has the labels of rehearsal/packages/sources/smi_fields.c (public
                   listings of that branch), with the values seen on that card: no repair pending, Fabric N/A
    kernel         the driver's messages as in NVIDIA's catalogue and leptonai/gpud's samples
    loaded         invented: the newest version of that branch, which has no known hole
    all others     the format of systemctl, df, /proc and openssl in Debian 13, with invented values
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from deploy.doctor.examine import findings_of
from deploy.doctor.finding import Finding
from deploy.doctor.readings import Readings
from deploy.doctor.wanted import Wanted, WantedServer

GOLDEN = Path(__file__).parents[1] / "golden"
SMI = (GOLDEN / "card/query.txt").read_text() + (GOLDEN / "doctor/rest-of-query.txt").read_text()
NOW = 1_795_420_800
"""2026-11-23 08:00:00 UTC."""
WANTED = Wanted(
    "h1",
    gpus=1,
    servers=(WantedServer("main", "0f63ebc3e7737224", other_ports=(8001, 8002), models=("llm", "embedder"), gbit=400),),
    os="ubuntu-24.04",
    today=date(2026, 11, 23),
    before=NOW - 1.0,
    after=NOW + 1.0,
)
UNITS = """Id=triton@main.service
LoadState=loaded
ActiveState=active
Result=success
NRestarts=0

Id=enginehouse-swap@main.service
LoadState=loaded
ActiveState=inactive
Result=success
NRestarts=0

Id=enginehouse-watch@main.timer
LoadState=loaded
ActiveState=active
Result=success

Id=enginehouse-gpu-state.timer
LoadState=loaded
ActiveState=active
Result=success

Id=docker.service
LoadState=loaded
ActiveState=active
Result=success
NRestarts=0"""
HEALTHY: Mapping[str, str] = {
    "user": "0",
    "smi": SMI,
    "kernel": "",
    "kernel-before": "",
    "kernel-beside": "",
    "pci": "0000:00:06.0 10de:2330 0x030200",
    "loaded": "580.178.04",
    "library": "580.178.04",
    "nouveau": "",
    "gpu-users": "",
    "mended": "",
    "cdi": "libcuda.so.580.178.04",
    "toolkit": "1.20.0-1",
    "room": "/dev/sda1 102400000 40960000 61440000 40% /",
    "inodes": "/dev/sda1 6553600 300000 6253600 5% /",
    "unwritable": "",
    "apt": "",
    "packages": "",
    "installed": "docker-ce 5:29.9.0-1~ubuntu.24.04~noble\ncontainerd.io 2.2.5-1~ubuntu.24.04~noble\nrunc-binary 1.3.6",
    "images": "main triton_core 2.71.0 trtllm 1.2.1",
    "ptrace-scope": "1",
    "clock": str(NOW),
    "clock-kept": "yes",
    "boot-wanted": "",
    "units": UNITS,
    "errors": "",
    "servers": 'main current 0f63ebc3e7737224\nmain verdict {"server": "main", "result": "serves", "sentence": ""}',
    "ready": "main - 200\nmain llm 200\nmain embedder 200",
    "causes": "",
    "metrics": "",
    "links": "main 24.1",
    "lock": "",
    "first-boot": "",
    "holds": "",
    "notices": "",
    "repair": "",
    "undo": "",
    "listening": "0100007F:1F40 0A\n0100007F:1F41 0A\n00000000:0016 0A",
    "certificates": "",
}
BARE: Mapping[str, str] = {
    **HEALTHY,
    "smi": "nvidia-smi: command not found",
    **dict.fromkeys(("loaded", "library", "cdi", "toolkit", "servers", "images", "installed", "links", "ready"), ""),
    "units": "Id=docker.service\nLoadState=not-found\nActiveState=inactive\nResult=success\nNRestarts=0",
    "listening": "00000000:0016 0A",
}
"""The same machine before its first deploy."""


def read(texts: Mapping[str, str], **ended: str) -> Readings:
    """Readings of a host with these answers; `ended` maps a command's name (`_` for a dash) to its exit status."""
    how = dict.fromkeys(texts, "0") | {name.replace("_", "-"): status for name, status in ended.items()}
    lines = [f"{name}|{line}" for name, text in texts.items() for line in text.splitlines()]
    return Readings.parse([*lines, *(f"{name}#{status}" for name, status in how.items())]).expecting(HEALTHY)


def examined(changes: Mapping[str, str], wanted: Wanted = WANTED, **ended: str) -> tuple[Finding, ...]:
    """The findings of the healthy host with these answers changed."""
    return findings_of(read({**HEALTHY, **changes}, **ended), wanted)


def ids(findings: tuple[Finding, ...]) -> list[str]:
    """Ids of the findings, in their order."""
    return [finding.id for finding in findings]


def smi(*changes: tuple[str, str]) -> str:
    """The recorded card with each (line's label, value) changed, in the first line of that label with another value.

    A label `Section/Label` is searched below the line of that section.
    """
    text = SMI
    for path, value in changes:
        section, _, label = path.rpartition("/")
        head, heading, tail = text.partition(f"    {section}\n") if section else ("", "", text)
        lines = tail.splitlines(keepends=True)
        at = next(number for number, line in enumerate(lines) if line.partition(" : ")[0].strip() == label)
        lines[at] = f"{lines[at].partition(' : ')[0]} : {value}\n"
        text = head + heading + "".join(lines)
    return text
