"""A pyinfra run like an operator's, with its output, its changes and the duration of each stage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.places import REPOSITORY, Places

OPERATION = re.compile(r"--> Starting operation: ([^|]+?) \| ")
TOTAL = re.compile(r"Grand total\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)")


@dataclass
class Run:
    """The result of one `pyinfra INVENTORY VERB`; seconds per stage by the part of the label before the bar."""

    code: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    output: str = ""

    @property
    def totals(self) -> dict[str, int]:
        """Returns the line "Grand total": operations that ran, changed, failed, changed nothing."""
        total = TOTAL.search(self.output)
        counts = [int(word) if word.isdigit() else 0 for word in total.groups()] if total else [0] * 4
        return dict(zip(("hosts", "success", "error", "no_change"), counts, strict=True))

    @property
    def is_silent(self) -> bool:
        """Returns True if the run succeeded and no operation changed anything."""
        return self.code == 0 and self.totals["hosts"] == self.totals["no_change"] > 0


def pyinfra(
    *words: str, log: Path | None = None, print_steps: bool = True, at: str = "",
    strike: Callable[[], None] | None = None,
    heard: Callable[[str], None] | None = None, checkout: Path = REPOSITORY,
) -> Run:  # fmt: skip
    """Runs pyinfra with these words in the repository, or in another checkout of it.

    Writes its output to `log`, and on a failure or with `print_steps` to stdout.

    `strike` is called once, when the first operation begins whose label starts with `at`, and the run continues.
    `heard` is called with every line on arrival.
    """
    run, stage, began = Run(), "Prepare", time.monotonic()
    process = _started(words, checkout)
    assert process.stdout is not None
    entered = began
    try:
        for line in process.stdout:
            run.output += line
            if heard:
                heard(line)
            if print_steps and line.startswith("-->"):
                print(f"  {time.monotonic() - began:6.1f} s  {line.strip()[4:]}", flush=True)
            if strike and at and line.startswith(f"--> Starting operation: {at}"):
                strike()
                strike = None
            if operation := OPERATION.search(line):
                now = time.monotonic()
                run.stages[stage] = run.stages.get(stage, 0.0) + now - entered
                stage, entered = operation[1], now
    except BaseException:
        process.kill()  # otherwise it would continue to deploy beside the next run
        process.wait()
        raise
    finally:
        process.stdout.close()
    run.code = process.wait()
    run.seconds = time.monotonic() - began
    run.stages[stage] = run.stages.get(stage, 0.0) + time.monotonic() - entered
    if log:
        log.write_text(run.output)
    return run


def control_pid(places: Places) -> int | None:
    """Returns the pid of the running pyinfra that was started here last."""
    file = places.root / "control.pid"
    number = file.read_text().strip() if file.exists() else ""
    command = Path(f"/proc/{number}/cmdline")
    return int(number) if number and command.exists() and b"pyinfra" in command.read_bytes() else None


def _started(words: tuple[str, ...], checkout: Path) -> subprocess.Popen[str]:
    program = str(Path(sys.executable).with_name("pyinfra"))
    # The packages of that checkout, not those of the virtual environment.
    environment = os.environ | ({"PYTHONPATH": str(checkout)} if checkout != REPOSITORY else {})
    process = subprocess.Popen(
        [program, *words], cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    (Places.here().root / "control.pid").write_text(f"{process.pid}\n")
    return process
