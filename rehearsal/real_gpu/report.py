"""Reports a run on a real GPU: each step writes a file, and the files of all sittings make one report.

    python -m rehearsal.real_gpu.report SITTING... --into benchmarks/results/h100-deploy.json

A sitting is a folder of `step-NAME.json` files, or a report that was made from such folders. Machines are borrowed for
minutes, so a run may end at any moment: a step's file exists from its start and says so until the step has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Record = dict[str, Any]
STEPS = (
    *("artefacts", "machine", "deploy", "deploy-again", "doctor", "smoke", "slot", "memory", "filled", "encoders"),
    *("changed-release", "rollback", "forward", "kills", "daemon-reload", "watchdog", "remove", "untouched"),
    "workspaces",
    *("split-deploy", "split-smoke", "split-load", "both-deploy", "both-smoke", "both-load"),
    *("beside-deploy", "beside-again", "beside-chat", "beside-smoke", "beside-doctor", "beside-filled", "beside-cost"),
    *(
        "beside-cost-loaded",
        "beside-clients",
        "beside-refused",
        "beside-swap",
        "beside-rollback",
        "beside-kill",
        "beside-drain",
    ),
    *("hosts-machines", "cards-deploy", "cards-again", "cards-chat", "cards-smoke", "cards-alone"),
    *("hosts-deploy", "hosts-again", "rates", "hosts-kill"),
)
"""Names of the steps, in the report's order; other steps follow, sorted by name."""
SHORT = 60
CUT = "cut off before it ended"
SMI = "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader,nounits --id=0"


class StepResults(dict[str, Any]):
    """Results of a step so far. Each item is saved at once, so that an interrupted sitting loses none of them."""

    def __init__(self, keep: Callable[[], None]) -> None:
        super().__init__()
        self._keep = keep

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._keep()

    def update(self, more: Mapping[str, Any]) -> None:
        """Saves all of `more`."""
        super().update(more)
        self._keep()


@contextmanager
def step(name: str, folder: Path, machine: Mapping[str, Any] | None = None) -> Iterator[StepResults]:
    """Writes step-NAME.json to `folder`: begin, seconds, ok, findings, and the problem of a body that raised.

    A step is ok if its body ended without setting `passed` to false. `machine` is `this_machine()` unless given.
    """
    began, clock = datetime.now(UTC).isoformat(timespec="milliseconds"), time.monotonic()
    facts = dict(this_machine() if machine is None else machine)
    problem, ended = CUT, False

    def keep() -> None:
        record = {"step": name, "began": began, "seconds": round(time.monotonic() - clock, 1)}
        record |= {"ok": ended and bool(results.get("passed", True)), "found": dict(results), "machine": facts}
        _replace(folder / f"step-{name}.json", record | ({"problem": problem} if problem else {}))

    results = StepResults(keep)
    keep()
    try:
        yield results
        problem, ended = "", True
    except BaseException as raised:
        problem = described(raised)
        raise
    finally:
        keep()


def described(raised: BaseException) -> str:
    """Returns class and message of an exception, with the last lines of a failed command."""
    last_lines = str(getattr(raised, "stderr", "") or getattr(raised, "stdout", "") or "")[-2000:]
    return f"{type(raised).__name__}: {raised}\n{last_lines}".strip()


def this_machine(ask: Callable[[str], str] = subprocess.getoutput) -> Record:
    """Returns processor, cores, memory and kernel of this machine; card and driver if nvidia-smi answers.

    `ask` runs a shell command on the machine with the card, and returns its output.
    """
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    facts: Record = {"cpu": models[0].split(":")[1].strip() if models else platform.machine()}
    facts |= {"cores": len(os.sched_getaffinity(0)), "memory_mib": pages >> 20, "kernel": platform.release()}
    card = [part.strip() for part in ask(SMI).split(",")]
    if len(card) == 3 and card[2].isdigit():
        facts |= {"gpu": card[0], "driver": card[1], "gpu_mib": int(card[2])}
    return facts


def records(sitting: Path) -> list[Record]:
    """Returns the steps of a folder of step files, or of a report."""
    if sitting.is_dir():
        return [json.loads(file.read_text("utf-8")) for file in sorted(sitting.glob("step-*.json"))]
    return list(json.loads(sitting.read_text("utf-8"))["steps"])


def merged(sittings: Iterable[Sequence[Record]], wanted: Sequence[str] = STEPS) -> Record:
    """Returns the report of all sittings: the newest record of each step, and the `wanted` steps without a good record.

    The order of the sittings and repeated sittings have no effect.
    """
    newest: dict[str, Record] = {}
    for record in (record for sitting in sittings for record in sitting):
        name = str(record["step"])
        newest[name] = max(newest.get(name, record), record, key=_age)
    place = {name: number for number, name in enumerate(wanted)}
    steps = sorted(newest.values(), key=lambda record: (place.get(record["step"], len(place)), record["step"]))
    missing = [name for name in wanted if not newest.get(name, {}).get("ok")]
    return {"report": "a deploy on a real GPU", "missing": missing, "steps": steps}


def _age(record: Record) -> tuple[str, str]:
    """Returns the start of a record; records of one moment are distinguished by their content."""
    return str(record["began"]), json.dumps(record, sort_keys=True)


def text(report: Record) -> str:
    """Returns the report as a table: step, ok, seconds, plain figures; below the table, verdicts and rows of other
    figures."""
    rows = [("step", "ok", "seconds", "found")]
    for record in report["steps"]:
        is_ok = "yes" if record["ok"] else "NO"
        outcome = record["problem"].splitlines()[0] if "problem" in record else _figures(record["found"])
        rows.append((record["step"], is_ok, f"{record['seconds']:.1f}", outcome))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{a.ljust(widths[0])}  {b.ljust(widths[1])}  {c.rjust(widths[2])}  {d}" for a, b, c, d in rows]
    missing = ", ".join(report["missing"]) or "none"
    below = [line for record in report["steps"] for line in _rows(record)]
    return "\n".join([*(line.rstrip() for line in lines), f"missing: {missing}", *below])


def _figures(results: Mapping[str, Any]) -> str:
    """Returns numbers, claims and short words, without nested values."""
    plain = {name: value for name, value in results.items() if isinstance(value, (int, float)) or is_short(value)}
    return ", ".join(f"{name} {value}" for name, value in plain.items())


def is_short(value: object) -> bool:
    """Returns True for a text of at most a few words."""
    return isinstance(value, str) and len(value) <= SHORT


def _rows(record: Record) -> Iterator[str]:
    """Yields a line for each judged figure of a measuring step; for other steps, each row of their lists."""
    from rehearsal.real_gpu.verdicts import SAYERS, verdicts

    if record["step"] in SAYERS:
        yield from (f"{record['step']}, {line}" for line in verdicts(record["step"], record["found"]))
        return
    for name, rows in record["found"].items():
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict):
                yield f"{record['step']}, {name}: {_figures(row)}"


def _replace(path: Path, value: Any) -> None:
    """Writes the JSON of `value` to the file by rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")
    partial.replace(path)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m rehearsal.real_gpu.report", description=__doc__.split("\n")[0])
    made.add_argument("sittings", nargs="+", type=Path, help="folders of step files, or earlier reports")
    made.add_argument("--into", type=Path, required=True, help="the report's file")
    return made


def main(words: list[str] | None = None) -> int:
    """Writes the report and prints its table; returns 0 if no step is missing."""
    options = parser().parse_args(words)
    report = merged(records(sitting) for sitting in options.sittings)
    _replace(options.into, report)
    print(text(report))
    return 1 if report["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
