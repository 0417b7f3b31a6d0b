"""Requests, tokens, cost, errors and times by day, key, tenant and model, kept over restarts and reboots.

Each finished request is a line of a log that only its process writes, so a killed process loses no finished request.
Every second the lines become counters in one SQLite file, which all processes of the host share. The counted length of
each log is in the same transaction, so no line is counted twice. The log of a dead process is counted to its end, and
then removed; the kernel releases the lock on it when the process dies. A thread syncs the log while lines arrive, so a
power cut loses the lines of the last SYNC_SECONDS and of one sync.

A cost of a million units or more is moved to a separate table, because whole numbers of SQLite end at 9.2 million
units.

More than 300 lines, because the file, its logs and their reader stand in one place.

A line has names and numbers, and no text of any request. Only the standard library is used: the operator's verb runs
`python -m gateway usage FOLDER` with the host's own Python.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import secrets
import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from gateway.account import transaction
from gateway.periods import Periods, Used

FILE = "usage-1.sqlite"
BUSY_SECONDS = 5.0
MOST_LOG_BYTES = 4 * 2**20
"""Bytes of a log, after which a new log is begun; the longer log is removed once it is counted."""
SYNC_SECONDS = 0.1
"""Seconds between two syncs of a log: all lines since the last sync share the next."""
MOST_HELD_BYTES = 16 * 2**20
"""Most bytes of lines that wait for a full disk; later lines are lost, which the journal records."""
SHORTEST_SECONDS, STEPS_PER_DOUBLING, BUCKETS = 0.001, 4, 81
"""Bucket n ends at 1 ms · 2^(n/4); the last one, from 1,049 s on, has no end. A quantile is right within 9 %."""
COUNTS = ("requests", "errors", "prompt_tokens", "cached_tokens", "completion_tokens", "cost")
TABLES = f"""
CREATE TABLE IF NOT EXISTS counts (day TEXT, key TEXT, tenant TEXT, model TEXT, currency TEXT,
    {", ".join(f"{name} INTEGER" for name in COUNTS)}, PRIMARY KEY (day, key, tenant, model, currency)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS times (day TEXT, key TEXT, tenant TEXT, model TEXT, currency TEXT, bucket INTEGER,
    requests INTEGER, PRIMARY KEY (day, key, tenant, model, currency, bucket)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS carried (day TEXT, key TEXT, tenant TEXT, model TEXT, currency TEXT, times INTEGER,
    PRIMARY KEY (day, key, tenant, model, currency)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS logs (name TEXT PRIMARY KEY, counted INTEGER) WITHOUT ROWID;
"""
ADD = f"""INSERT INTO counts VALUES ({", ".join("?" * (5 + len(COUNTS)))}) ON CONFLICT DO UPDATE
    SET {", ".join(f"{name} = {name} + excluded.{name}" for name in COUNTS)}"""
ADD_TIME = """INSERT INTO times VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET requests = requests + excluded.requests"""
ADD_LOG = "INSERT INTO logs VALUES (?, ?) ON CONFLICT DO UPDATE SET counted = excluded.counted"
PICO = 10**12
"""Parts of a unit of money in which cost is counted: whole numbers, whose sums are exact."""
CARRY, HALF = 10**18, 10**9
"""Cost of a group and day from which the table `carried` counts multiples; and the divisor that splits a cost into two
parts, so that sums fit SQLite's numbers."""
OF_GROUP = "day = ? AND key = ? AND tenant = ? AND model = ? AND currency = ?"
ADD_CARRIED = "INSERT INTO carried VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET times = times + excluded.times"
CARRY_OVER = f"""INSERT INTO carried SELECT day, key, tenant, model, currency, cost / {CARRY} FROM counts
    WHERE {OF_GROUP} AND cost >= {CARRY} ON CONFLICT DO UPDATE SET times = times + excluded.times"""
CARRIED_OVER = f"UPDATE counts SET cost = cost % {CARRY} WHERE {OF_GROUP} AND cost >= {CARRY}"
SUMS = f"""SELECT day, key, tenant, currency, SUM(prompt_tokens + completion_tokens), SUM(cost / {HALF}),
    SUM(cost % {HALF}) FROM counts WHERE day >= ? GROUP BY day, key, tenant, currency"""
SUMS_CARRIED = """SELECT day, key, tenant, currency, SUM(times) FROM carried WHERE day >= ?
    GROUP BY day, key, tenant, currency"""

Group = tuple[str, str, str, str, str]
"""Day (UTC), public beginning of the key (with the person, `PREFIX/PERSON`), tenant, model, currency."""


@dataclass(frozen=True)
class Price:
    """Money for a million tokens of prompts, of their cached part, and of answers; and its currency."""

    prompt: float
    cached: float
    completion: float
    currency: str

    def cost(self, prompt: int, cached: int, completion: int) -> int:
        """Cost of these tokens, in 10^-12 of the currency. `cached` is a part of `prompt`."""
        fresh = max(prompt - cached, 0)
        parts = ((self.prompt, fresh), (self.cached, cached), (self.completion, completion))
        return sum(round(price * 10**6) * tokens for price, tokens in parts)


@dataclass(frozen=True)
class Ended:
    """A finished request."""

    group: Group
    is_error: bool
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: int
    seconds: float

    def line(self) -> bytes:
        """The request as a line of the usage log."""
        numbers = (self.prompt_tokens, self.cached_tokens, self.completion_tokens, self.cost, bucket_of(self.seconds))
        return (json.dumps([*self.group, int(self.is_error), *numbers], separators=(",", ":")) + "\n").encode()


class Log:
    """The log of this process. Raises: OSError if the folder is not writable."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._held = folder, b""
        self._lock = threading.Lock()  # the event loop adds requests, and a thread counts them
        self._handle, self.name = self._opened()
        self._written, self._closed = threading.Event(), threading.Event()
        self._sync_lock = threading.Lock()  # keeps the handle open during a sync; never held while a line is written
        self._sync_error = self._named = ""
        self._syncing = threading.Thread(target=self._keep_synced, name="usage-sync", daemon=True)
        self._syncing.start()

    def add(self, ended: Ended) -> None:
        """Writes the request to the log; on a full disk the line waits here for the next attempt."""
        line = ended.line()
        with self._lock:
            if len(self._held) + len(line) <= MOST_HELD_BYTES:
                self._held += line
            else:
                print("<3>a request is missing from the usage: its log cannot be written", file=sys.stderr, flush=True)
        self.flush()

    def flush(self) -> bool:
        with self._lock:
            with contextlib.suppress(OSError):
                while self._held:
                    self._held = self._held[os.write(self._handle, self._held) :]
                    self._written.set()
            return not self._held

    def renew(self) -> None:
        """Starts a new log for the next line. Raises: OSError; the old log then stays in use."""
        with self._sync_lock:
            with self._lock:
                if self._held:
                    return
                old, (self._handle, self.name) = self._handle, self._opened()
            self._sync(old)
            os.close(old)
            self._sync(self._handle)

    def close(self) -> None:
        """Syncs and closes the log; nothing is added afterwards."""
        self._closed.set()
        self._written.set()
        self._syncing.join()
        self._sync(self._handle)
        os.close(self._handle)

    def _keep_synced(self) -> None:
        """Syncs the log while lines arrive, until `close`."""
        while not self._closed.wait(SYNC_SECONDS):
            self._written.wait()
            self._written.clear()
            with self._sync_lock:
                self._sync(self._handle)

    def _sync(self, handle: int) -> None:
        """Syncs a log, and at its first time its name in the folder."""
        error = ""
        try:
            os.fdatasync(handle)
            if self._named != self.name:
                _sync_folder(self._folder)
                self._named = self.name
        except OSError as problem:
            error = str(problem)
        if error and error != self._sync_error:
            print(f"<4>the log of usage could not be synced; it is tried again: {error}", file=sys.stderr, flush=True)
        self._sync_error = error

    def _opened(self) -> tuple[int, str]:
        while True:
            name = f"{secrets.token_hex(8)}.log"
            path = self._folder / name
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                # No other process removed it as a dead log before it was locked.
                if os.path.samestat(path.stat(), os.fstat(handle)):
                    return handle, name
            os.close(handle)


class Counters:
    """The counters of a folder. Raises: sqlite3.Error or OSError. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = sqlite3.connect(folder / FILE, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        with transaction(self._file):
            for table in TABLES.split(";"):
                self._file.execute(table)

    def close(self) -> None:
        self._file.close()

    def count(self, name: str) -> int:
        """Counts a log; returns the bytes that are counted now."""
        with transaction(self._file):
            row = self._file.execute("SELECT counted FROM logs WHERE name = ?", (name,)).fetchone()
            counted = int(row[0]) if row else 0
            with (self._folder / name).open("rb") as log:
                log.seek(counted)
                content = log.read()
            whole = content[: content.rfind(b"\n") + 1]
            if not whole:
                return counted
            self._add(whole)
            counted += len(whole)
            self._file.execute(ADD_LOG, (name, counted))
        return counted

    def count_all(self) -> None:
        """Counts all logs of the folder, and removes those of dead processes."""
        for path in sorted(self._folder.glob("*.log")):
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                self._count_and_remove(path)
        known = [name for (name,) in self._file.execute("SELECT name FROM logs")]
        gone = [name for name in known if not (self._folder / name).exists()]
        if gone:
            # A removed log must not return after a power cut: without its row it would be counted again.
            _sync_folder(self._folder)
            with transaction(self._file):
                self._file.executemany("DELETE FROM logs WHERE name = ?", [(name,) for name in gone])

    def forget(self, days: int, now: datetime) -> None:
        """Deletes the counters of days longer ago than this."""
        oldest = f"{now - timedelta(days=days):%Y-%m-%d}"
        with transaction(self._file):
            for table in ("counts", "times", "carried"):
                self._file.execute(f"DELETE FROM {table} WHERE day < ?", (oldest,))

    def rows(self, since: str = "", key: str = "", tenant: str = "") -> Iterator[dict[str, Any]]:
        """The counters of each group since a day, of a key with its persons, a tenant or all.

        `times` maps buckets to requests.
        """
        wanted = (since, key, key, f"{key}/", f"{key}/", tenant, tenant)
        where = "WHERE day >= ? AND (? = '' OR key = ? OR substr(key, 1, length(?)) = ?) AND (? = '' OR tenant = ?)"
        self._file.execute("BEGIN")
        try:
            times: dict[Group, dict[int, int]] = {}
            for *group, bucket, requests in self._file.execute(f"SELECT * FROM times {where}", wanted):
                times.setdefault((group[0], group[1], group[2], group[3], group[4]), {})[bucket] = requests
            carried: dict[Group, int] = {}
            for *group, count in self._file.execute(f"SELECT * FROM carried {where}", wanted):
                carried[group[0], group[1], group[2], group[3], group[4]] = count
            names = ("day", "key", "tenant", "model", "currency", *COUNTS)
            for values in self._file.execute(f"SELECT * FROM counts {where} ORDER BY 1, 2, 3, 4, 5", wanted):
                row: dict[str, Any] = dict(zip(names, values, strict=True))
                row["cost"] += carried.get(values[:5], 0) * CARRY
                yield {**row, "times": times.get(values[:5], {})}
        finally:
            self._file.execute("COMMIT")

    def sums(self, since: str) -> list[tuple[str, Used]]:
        """Day, and tokens and cost of a key and tenant, since a day."""
        rows = [
            (day, (key, tenant, currency, int(tokens), int(large) * HALF + int(small)))
            for day, key, tenant, currency, tokens, large, small in self._file.execute(SUMS, (since,))
        ]
        for day, key, tenant, currency, times in self._file.execute(SUMS_CARRIED, (since,)):
            rows.append((day, (key, tenant, currency, 0, int(times) * CARRY)))
        return rows

    def _count_and_remove(self, path: Path) -> None:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            is_dead = True
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                is_dead = False
            self.count(path.name)
            if is_dead:
                path.unlink()
        finally:
            os.close(handle)

    def _add(self, lines: bytes) -> None:
        counts: dict[Group, list[int]] = {}
        times: dict[tuple[Group, int], int] = {}
        for line in lines.splitlines():
            ended = _ended(line)
            if ended is None:  # an incomplete line, after a power cut
                continue
            group, numbers, bucket = ended
            sums = counts.setdefault(group, [0] * len(COUNTS))
            for place, number in enumerate(numbers):
                sums[place] += number
            times[group, bucket] = times.get((group, bucket), 0) + 1
        carried = {group: sums[-1] // CARRY for group, sums in counts.items()}
        self._file.executemany(ADD, [(*group, *sums[:-1], sums[-1] % CARRY) for group, sums in counts.items()])
        self._file.executemany(ADD_CARRIED, [(*group, times) for group, times in carried.items() if times])
        self._file.executemany(CARRY_OVER, list(counts))
        self._file.executemany(CARRIED_OVER, list(counts))
        self._file.executemany(ADD_TIME, [(*group, bucket, count) for (group, bucket), count in times.items()])


def _ended(line: bytes) -> tuple[Group, tuple[int, ...], int] | None:
    try:
        day, key, tenant, model, currency, error, prompt, cached, completion, cost, bucket = json.loads(line)
        numbers = tuple(int(number) for number in (1, error, prompt, cached, completion, cost))
        return (str(day), str(key), str(tenant), str(model), str(currency)), numbers, int(bucket)
    except (ValueError, TypeError, RecursionError):
        return None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def bucket_of(seconds: float) -> int:
    """The bucket of a request that took this long."""
    if seconds <= SHORTEST_SECONDS:
        return 0
    return min(math.ceil(math.log2(seconds / SHORTEST_SECONDS) * STEPS_PER_DOUBLING - 1e-9), BUCKETS - 1)


def _seconds_of(bucket: int) -> float:
    return float(round(SHORTEST_SECONDS * 2.0 ** ((bucket - 0.5) / STEPS_PER_DOUBLING), 6))


def _in_seconds(times: Mapping[int, int]) -> dict[float, int]:
    """Requests by the middle of their bucket, so that sums over hosts do not depend on buckets."""
    return {_seconds_of(bucket): requests for bucket, requests in sorted(times.items())}


def quantile(times: Mapping[int, int], share: float) -> float:
    """Seconds within which this share of the requests ended, accurate to 9 %; 0.0 without a request."""
    left = math.ceil(sum(times.values()) * share)
    for bucket in sorted(times):
        left -= times[bucket]
        if left <= 0:
            return _seconds_of(bucket)
    return 0.0


class Usage:
    """The usage that a process counts. Without a folder it counts nothing."""

    def __init__(self, folder: str) -> None:
        self.folder, self.days = folder, 0
        self.prices: Mapping[str, Price] = {}
        self.periods = Periods()
        self._log: Log | None = None
        self._counters: Counters | None = None
        self._looked = ""
        self._lock = threading.Lock()
        """Lock of the counters: a thread may still count while the process ends."""

    @property
    def is_counting(self) -> bool:
        return bool(self.folder and self.days)

    def add(
        self, at: float, key: str, tenant: str, model: str, is_error: bool, tokens: tuple[int, int, int], seconds: float
    ) -> None:
        """Adds a finished request that began at `at`; tokens are those of prompt, cached part and answer."""
        day = f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d}"
        price = self.prices.get(model)
        cost, currency = (price.cost(*tokens), price.currency) if price else (0, "")
        if self.is_counting:
            self._write(Ended((day, key, tenant, model, currency), is_error, *tokens, cost, seconds))
        # After the line, so that these sums never lack what the counters will have.
        self.periods.add(day, (key, tenant, currency, tokens[0] + tokens[2], cost))

    def _write(self, ended: Ended) -> None:
        with self._reporting_errors():
            self._log = self._log or Log(Path(self.folder))
            self._log.add(ended)

    def count(self, now: datetime) -> None:
        """Counts this process's log; once a minute counts every process's log and deletes old days."""
        self.periods.depart(now)
        if not self.is_counting:
            return
        with self._lock, self._reporting_errors():
            self._counters = self._counters or Counters(Path(self.folder))
            if is_new_minute := (minute := f"{now:%Y-%m-%d %H:%M}") != self._looked:
                self._counters.count_all()
                self._counters.forget(self.days, now)
                self._looked = minute
            is_written = self._log is None or self._log.flush()
            counted = self._counters.count(self._log.name) if self._log and is_written else 0
            if is_written:
                since = self.periods.stale_since(now, is_new_minute)
                self.periods.arrived(now, since, self._counters.sums(since))
            if self._log and counted >= MOST_LOG_BYTES:
                self._log.renew()

    def of_key(self, key: str, tenant: str, since: str) -> list[dict[str, Any]]:
        """The counters of a key of this tenant since a day, as far as this host has counted."""
        return self._rows(since, key, tenant)

    def of_tenant(self, tenant: str, since: str) -> list[dict[str, Any]]:
        return self._rows(since, "", tenant)

    def _rows(self, since: str, key: str, tenant: str) -> list[dict[str, Any]]:
        if not self.is_counting:
            return []
        with self._reporting_errors():
            counters = Counters(Path(self.folder))
            try:
                return list(counters.rows(since, key, tenant))
            finally:
                counters.close()
        return []

    def close(self) -> None:
        """Counts all finished requests and ends the process's writes."""
        log, self._log = self._log, None
        with self._lock, self._reporting_errors():
            if log:
                log.flush()
                log.close()
                self._counters = self._counters or Counters(Path(self.folder))
            if self._counters:
                self._counters.count_all()
                self._counters.close()
        self._counters = None

    @contextlib.contextmanager
    def _reporting_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError) as error:
            print(f"<4>usage could not be counted; it is tried again: {error}", file=sys.stderr, flush=True)


def folder_of_the_unit() -> str:
    return os.environ.get("STATE_DIRECTORY", "").partition(":")[0]


def report(folder: Path, since: str) -> dict[str, Any]:
    """All counters of the folder since a day, after every line of every log is counted.

    Raises: OSError, sqlite3.Error.
    """
    status = folder.stat()
    if os.geteuid() == 0:  # as root, takes the folder's owner: the gateway could not open files of root
        os.setegid(status.st_gid)
        os.seteuid(status.st_uid)
    counters = Counters(folder)
    try:
        counters.count_all()
        return {"rows": [row | {"times": _in_seconds(row["times"])} for row in counters.rows(since)]}
    finally:
        counters.close()
