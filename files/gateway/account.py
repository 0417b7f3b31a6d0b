"""Each key's usage in the last minute and its open requests, in a file that a host's processes share.

SQLite in a folder of memory (systemd's RuntimeDirectory): a process that is killed during a change leaves the file
intact. Each process holds a lock on its own file; the kernel releases it when the process dies, and the count of open
requests then leaves out the dead process.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

BUSY_SECONDS = 0.1
WINDOW_SECONDS = 60
TABLES = """
CREATE TABLE IF NOT EXISTS spent (key TEXT, second INTEGER, requests INTEGER, tokens INTEGER, PRIMARY KEY (key, second))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS running (key TEXT, process TEXT, requests INTEGER, PRIMARY KEY (key, process)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ended (key TEXT PRIMARY KEY, requests INTEGER, prompt INTEGER, completion INTEGER)
    WITHOUT ROWID;
"""
ADD = """INSERT INTO spent VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET requests = requests + excluded.requests, tokens = tokens + excluded.tokens"""
BEGIN = "INSERT INTO running VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET requests = requests + 1"
END = """INSERT INTO ended VALUES (?, 1, ?, ?) ON CONFLICT DO UPDATE
    SET requests = requests + 1, prompt = prompt + excluded.prompt, completion = completion + excluded.completion"""


@dataclass(frozen=True)
class Spent:
    """A key's usage of the last minute, by second, oldest first; and its open requests."""

    seconds: tuple[tuple[int, int, int], ...]
    """Second, requests, tokens."""
    running: int
    now: float

    @property
    def requests(self) -> int:
        return sum(requests for _, requests, _ in self.seconds)

    @property
    def tokens(self) -> int:
        return sum(tokens for _, _, tokens in self.seconds)

    def free_in(self, kind: int, amount: int) -> int:
        """Whole seconds until this much usage has left the minute's window; `kind` 1 is requests, 2 is tokens.

        At most 60, because openai's client obeys no longer wait (2.20, 2026-11-25).
        """
        wait = 0
        for row in self.seconds:
            if row[kind] and amount > 0:
                amount -= row[kind]
                wait = min(max(math.ceil(row[0] + WINDOW_SECONDS + 1 - self.now), 1), WINDOW_SECONDS)
        return wait


@dataclass(frozen=True)
class Ended:
    """A key's totals since the file was created."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@contextlib.contextmanager
def transaction(file: sqlite3.Connection) -> Iterator[None]:
    """A transaction of a database that other processes write too."""
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # after a disk error SQLite has rolled back already
            file.execute("ROLLBACK")
        raise
    file.execute("COMMIT")


class Account:
    """The file of a folder; with "" as the folder, memory of this process only. Raises sqlite3.Error or OSError."""

    def __init__(self, folder: str, clock: Callable[[], float]) -> None:
        self._folder, self._clock, self._process = folder, clock, secrets.token_hex(8)
        self._unsettled: list[tuple[str, int, int, int, int]] = []
        self._lock = self._locked() if folder else -1
        self._file = sqlite3.connect(
            f"{folder}/budgets-1.sqlite" if folder else ":memory:", BUSY_SECONDS, isolation_level=None
        )
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = OFF")  # the folder is in memory, and is lost at a power cut anyway
        with transaction(self._file):
            for table in TABLES.split(";"):
                self._file.execute(table)
            self._leave_out_the_dead()

    def close(self) -> None:
        """Removes this process's open requests from the count."""
        with contextlib.suppress(sqlite3.Error):
            self._file.execute("DELETE FROM running WHERE process = ?", (self._process,))
        self.abandon()
        if self._folder:
            self._mark(self._process).unlink(missing_ok=True)

    def abandon(self) -> None:
        """Closes file and lock, as if the process were killed."""
        self._file.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @contextlib.contextmanager
    def looked_at(self, key: str, most_running: int = 0) -> Iterator[Spent]:
        """Locks the key's counters and returns them. An exception inside the block undoes the writes.

        `most_running`: from this many open requests on, the requests of dead processes are removed first.
        """
        if self._unsettled:
            self._settle()
        with transaction(self._file):
            now = self._clock()
            second = int(now)
            # Later seconds are from a clock that was set back at a reboot.
            bounds = (key, second - WINDOW_SECONDS, second + 1)
            self._file.execute("DELETE FROM spent WHERE key = ? AND (second < ? OR second > ?)", bounds)
            spent = self.spent(key, now)
            if most_running and spent.running >= most_running and self._leave_out_the_dead():
                spent = self.spent(key, now)
            yield spent

    def spent(self, key: str, now: float) -> Spent:
        """The key's usage of the last minute. Call it only inside `looked_at`."""
        seconds = self._file.execute("SELECT second, requests, tokens FROM spent WHERE key = ? ORDER BY 1", (key,))
        running = self._file.execute("SELECT COALESCE(SUM(requests), 0) FROM running WHERE key = ?", (key,))
        return Spent(tuple(seconds), int(running.fetchone()[0]), now)

    def begin(self, key: str, now: float) -> None:
        """Counts another open request. Call it only inside `looked_at`."""
        self._file.execute(ADD, (key, int(now), 1, 0))
        self._file.execute(BEGIN, (key, self._process))

    def reserve(self, key: str, now: float, tokens: int) -> None:
        """Adds tokens to the key's usage. Call it only inside `looked_at`."""
        self._file.execute(ADD, (key, int(now), 0, tokens))

    def settle(self, key: str, second: int, reserved: int, prompt: int, completion: int) -> None:
        """Settles a request that used these tokens. A failed write is repeated with the next request."""
        self._unsettled.append((key, second, reserved, prompt, completion))
        self._settle()

    def _settle(self) -> None:
        with transaction(self._file):
            for key, second, reserved, prompt, completion in self._unsettled:
                change, mine = (prompt + completion - reserved, key, second), (key, self._process)
                self._file.execute("UPDATE spent SET tokens = tokens + ? WHERE key = ? AND second = ?", change)
                self._file.execute("UPDATE running SET requests = requests - 1 WHERE key = ? AND process = ?", mine)
                self._file.execute("DELETE FROM running WHERE key = ? AND process = ? AND requests <= 0", mine)
                self._file.execute(END, (key, prompt, completion))
        self._unsettled.clear()

    def ended(self, key: str) -> Ended:
        """The key's totals since the file was created."""
        rows = self._file.execute("SELECT requests, prompt, completion FROM ended WHERE key = ?", (key,))
        return Ended(*(rows.fetchone() or ()))

    def _mark(self, process: str) -> Path:
        return Path(self._folder) / f"budgets-{process}.lock"

    def _locked(self) -> int:
        handle = os.open(self._mark(self._process), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        return handle

    def _leave_out_the_dead(self) -> bool:
        named = [process for (process,) in self._file.execute("SELECT DISTINCT process FROM running")]
        dead = [process for process in named if process != self._process and self._is_dead(process)]
        for process in dead:
            self._file.execute("DELETE FROM running WHERE process = ?", (process,))
            self._mark(process).unlink(missing_ok=True)
        return bool(dead)

    def _is_dead(self, process: str) -> bool:
        try:
            handle = os.open(self._mark(process), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True
