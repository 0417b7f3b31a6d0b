"""Events of a run for programs: one line of JSON for each event, in the file of `--data events=FILE`.

Every line has `time` (universal), `run`, `event`, `host`, `wave` (the host's, from 1; 0 if it is in none), `stage`
(the last one told of the host: staged, drained, swapped, proven, admitted, passed, …) and `operation`. By `event`:

    waves    who is in which wave
    began    the operation begins
    result   it ended on this host: `result` (changed, unchanged, failed, ignored) and `seconds` since it began
    ended    it ended everywhere: `hosts` with each result, the skipped ones too, and `seconds`
    stage    the host has come to this stage
    line     whatever else pyinfra or a role says: `line` and `level`
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from datetime import UTC, datetime
from typing import Any

from pyinfra import logger

from deploy.refusals.errors import Refusal

event_logger = logging.getLogger(f"{logger.name}.enginehouse")
"""A logger below pyinfra's own, whose handlers receive it. Its records are for a View (view.py) and shown nowhere
else."""


def tell(host: str = "", **fields: Any) -> None:
    """Logs an event: these fields are true of the host, or of the run."""
    event_logger.debug("", extra={"told": {"host": host, **fields}})


class EventFile:
    """A file that events are appended to, readable by its owner alone. If it cannot be written, the run goes on
    without it."""

    def __init__(self, path: str, run: str) -> None:
        """Raises: a Refusal if the file cannot be opened."""
        self.path, self.run = path, run
        try:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as problem:
            raise Refusal(
                "the events of this run cannot be written",
                facts={"where": f"--data events={path}", "said": str(problem.strerror)},
                attempt="name a file in a directory that is there and yours",
                state="no host was asked anything",
                kind="no-events",
            ) from None
        self._file: Any = os.fdopen(opened, "a", buffering=1, encoding="utf-8")

    def write(self, **fields: Any) -> None:
        """Appends a line. If the file cannot be written, warns once and writes nothing more."""
        if self._file is None:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        try:
            self._file.write(json.dumps({"time": now, "run": self.run, **fields}) + "\n")
        except OSError as problem:
            file, self._file = self._file, None
            with contextlib.suppress(OSError):
                file.close()
            logger.warning(f"no more events are written to {self.path}: {problem.strerror}")
