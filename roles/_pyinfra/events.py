"""Events of a run for programs: one line of JSON for each event, in the file of `--data events=FILE`.

Every line has `time` (universal), `run`, `event`, `host`, `wave` (the host's, from 1; 0 if it is in none), `stage`
(the host's latest: staged, drained, swapped, proven, admitted, passed, …) and `operation`. By `event`:

    waves    the hosts of each wave
    began    the operation begins
    result   it ended on this host: `result` (changed, unchanged, failed, ignored) and `seconds` since it began
    ended    it ended everywhere: `hosts` by result, skipped ones included, and `seconds`
    stage    the host has reached this stage
    line     any other message of pyinfra or a role: `line` and `level`
"""

import contextlib
import json
import logging
import os
from datetime import UTC, datetime
from typing import Any

from pyinfra import logger

from deploy.refusals import Refusal

event_logger = logging.getLogger(f"{logger.name}.enginehouse")
"""A child of pyinfra's logger. Its records are for a View (view.py) and are shown nowhere else."""


def emit(host: str = "", **fields: Any) -> None:
    event_logger.debug("", extra={"told": {"host": host, **fields}})


class EventFile:
    """A file to which events are appended, readable only by its owner. A run continues if it cannot be written."""

    def __init__(self, path: str, run: str) -> None:
        """Raises: a Refusal if the file cannot be opened."""
        self.path, self.run = path, run
        try:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as problem:
            raise Refusal(
                "the events of this run cannot be written",
                facts={"where": f"--data events={path}", "said": str(problem.strerror)},
                attempt="name a file in an existing directory that you can write",
                state="no host was asked anything",
                kind="no-events",
            ) from None
        self._file: Any = os.fdopen(opened, "a", buffering=1, encoding="utf-8")

    def write(self, **fields: Any) -> None:
        """Appends a line. If the file cannot be written, warns once and then stops writing."""
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
