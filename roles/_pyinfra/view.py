"""Output of a run for a person: with many hosts a few lines for each operation and wave, but every failure in full.

pyinfra prints a line for each host and operation: 117,000 for 200 hosts in 21 waves, 100,000 of them "Skipped" (3.10.0,
2026-11-22). With up to FEW hosts all lines but "Skipped" are shown. With more hosts, a host's line is shown only for a
failure, and each operation with changes has one line with numbers. `-v` shows everything. Each wave has a line at its
beginning and one at its end, with its duration and an estimate of the rest: from the waves of this run, or, during the
first one, from the last swaps of its hosts.

A View reads pyinfra's log, because pyinfra's callbacks report neither changes nor the end of a failed run's last
operation.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import click
from pyinfra import logger
from pyinfra.context import ctx_state

from deploy.io.inventory import override_data
from deploy.refusals import visible
from roles._pyinfra.events import EventFile, event_logger
from roles._pyinfra.runs import this_run

FEW = 8
SHOWN = 8
"""Largest number of hosts that a line names."""
SILENT_SECONDS = 60
"""Seconds without output before many hosts' work is reported."""
BEGINS = re.compile(r"--> Starting .*?operation: (.*\S)")
OF_HOST = re.compile(r"\[([^\]]+)\] +(.*)", re.DOTALL)
COLOUR = re.compile(r"\x1b\[(?:0|1|2|4|[39][0-7]|39)m")
"""Colours as click writes them."""
RESULT = re.compile(r"(Success|No changes|Skipped|Error \(ignored|Error: executed )")
MEANS = {"Success": "changed", "No changes": "unchanged", "Skipped": "skipped", "Error (ignored": "ignored"}
BEFORE_WAVES, WAVE = re.compile(r"Gate \| Every host"), re.compile(r"Gate \| Wave (\d+) of (\d+)")
TABLES = {"--> Results:": slice(2, 4), "--> Detected changes:": slice(1, 3)}
"""Columns of pyinfra's tables for operations with changes, made or expected."""
THROUGH = ("passed", "put back", "kept", "not ready", "slower", "question failed")


def install(data: Iterable[str], verbosity: int) -> None:
    """Shows this run's log through a View; with `events=FILE` in `data` the file gets every event.

    Raises: a Refusal if the file cannot be written.
    """
    path = override_data(data).get("events")
    write = EventFile(str(path), this_run(ctx_state.get()).id).write if path else _nothing
    view = View(write, shows_all=verbosity > 0)
    event_logger.setLevel(logging.DEBUG)
    for handler in logger.handlers:
        handler.addFilter(view)


def plain(text: str) -> str:
    """The text in pyinfra's colours, with other terminal control characters escaped, because parts of the text come
    from hosts."""
    colours = COLOUR.findall(text)
    parts = [visible(part) for part in COLOUR.split(text)]
    return "".join(part + colour for part, colour in zip(parts, [*colours, ""], strict=True))


def _nothing(**_: Any) -> None:
    """Writes no event; used by a run without `--data events=FILE`."""


class View(logging.Filter):
    """Chooses the log records that are shown, and adds lines about waves; `write` gets every event."""

    def __init__(
        self, write: Callable[..., None] = _nothing, shows_all: bool = False, many: bool | None = None
    ) -> None:
        """`many`: True if a line per host is too much; decided by pyinfra's state if it is None."""
        super().__init__()
        self._write_event, self._shows_all, self._many = write, shows_all, many
        self._began = self._operation_began = self._wave_began = self._shown = time.monotonic()
        self._operation = self._section = ""
        self._results: dict[str, str] = {}
        self._first: dict[str, str] = {}
        """The first host with a refusal, by the refusal."""
        self._same: list[str] = []
        """Hosts that repeated another host's refusal."""
        self._waves: Sequence[Collection[str]] = ()
        self._wave_of: dict[str, int] = {}
        self._begun: set[int] = set()
        self._stages: dict[str, str] = {}
        self._drained: dict[str, float] = {}
        self._last_swap: dict[str, float] = {}
        self._took: list[float] = []
        """Seconds of each wave with changes."""
        self._changed, self._failed = set[str](), set[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the record is shown."""
        if hasattr(record, "told"):
            self._hear(**record.told)
            return False
        is_shown = record.levelno < logging.INFO or hasattr(record, "is_ours")
        is_shown = is_shown or self._see(record, click.unstyle(record.getMessage())) or self._shows_all
        if is_shown:
            record.msg, record.args = plain(record.getMessage()), None
        return is_shown

    def _see(self, record: logging.LogRecord, text: str) -> bool:
        if text.startswith("-->"):
            self._end_operation()
            if begins := BEGINS.match(text):
                self._begin_operation(begins[1])
            else:
                self._section = text
            return True
        if of_host := OF_HOST.match(text):
            return self._see_host(record, of_host[1], of_host[2])
        self._write("line", line=text, level=record.levelname.lower())
        return not (self._section in TABLES and self.is_fleet and self._is_idle(text))

    def _see_host(self, record: logging.LogRecord, host: str, words: str) -> bool:
        if self._operation and (outcome := RESULT.match(words)):
            return self._see_result(host, MEANS.get(outcome[1], "failed"))
        self._write("line", host, line=words, level=record.levelname.lower())
        refusal = getattr(record, "refusal", "") if self.is_fleet else ""
        if refusal and self._first.setdefault(refusal, host) != host:
            self._same += [] if host in self._same else [host]
            return False
        return record.levelno > logging.INFO or not self.is_fleet or self._is_overdue()

    def _see_result(self, host: str, result: str) -> bool:
        self._results[host] = result
        if not WAVE.match(self._operation):  # a host that the gate stops has not failed
            {"changed": self._changed, "failed": self._failed}.get(result, set[str]()).add(host)
        if result == "skipped":
            return False
        self._write("result", host, result=result, seconds=self._seconds())
        return not self.is_fleet or (result in ("failed", "ignored") and host not in self._same)

    @property
    def is_fleet(self) -> bool:
        """True if a line for each host and operation is too much."""
        if self._many is None and ctx_state.isset() and ctx_state.get().initialised:
            state = ctx_state.get()
            self._many = sum(state.is_host_in_limit(host) for host in state.inventory) > FEW
        return bool(self._many)

    def _is_idle(self, row: str) -> bool:
        columns = re.split(r" {2,}", row.strip())
        return columns[0] != "Grand total" and set(columns[TABLES[self._section]]) == {"-"}

    def _is_overdue(self) -> bool:
        """True at most once in SILENT_SECONDS."""
        if time.monotonic() - self._shown < SILENT_SECONDS:
            return False
        self._shown = time.monotonic()
        return True

    def _begin_operation(self, name: str) -> None:
        self._operation, self._operation_began = name, time.monotonic()
        self._shown = self._operation_began
        self._write("began")

    def _end_operation(self) -> None:
        if not self._operation:
            return
        hosts = Counter(self._results.values())
        self._write("ended", hosts=dict(hosts), seconds=self._seconds())
        if self._same:
            self._say(f"the same on {len(self._same)} more hosts: {names(self._same)}", logging.ERROR)
        if self.is_fleet and hosts["changed"] + hosts["failed"]:
            self._say(f"{counted(hosts['changed'], hosts['failed'])}, in {span(self._seconds())}")
        if BEFORE_WAVES.match(self._operation):
            self._begin_waves()
        elif gate := WAVE.match(self._operation):
            self._end_wave(int(gate[1]), int(gate[2]), "failed" not in self._results.values())
        self._operation, self._results, self._first, self._same = "", {}, {}, []

    def _begin_waves(self) -> None:
        self._wave_began, self._changed, self._failed = time.monotonic(), set(), set()

    def _end_wave(self, number: int, count: int, is_open: bool) -> None:
        took, now = time.monotonic() - self._wave_began, time.monotonic()
        wave = set(self._waves[number - 1]) if number <= len(self._waves) else self._changed | self._failed
        changed, failed = self._changed & wave, self._failed & wave
        self._took += [took] if changed else []
        left = count - number
        rest = f"; about {span(left * sum(self._took) / len(self._took))} for the rest" if left and self._took else ""
        self._say(
            f"Wave {number} of {count} {'passed' if is_open else 'did not pass'} its gate:"
            f" {counted(len(changed), len(failed))}, in {span(took)}; {span(now - self._began)} since the run began"
            + (rest if is_open else "")
        )
        self._begin_waves()

    def _hear(self, host: str, **fields: Any) -> None:
        if "waves" in fields and fields["waves"] != self._waves:
            self._waves = fields["waves"]
            self._wave_of = {name: number for number, wave in enumerate(self._waves, start=1) for name in wave}
            self._write("waves", waves=[list(wave) for wave in self._waves])
        if "last_swap_seconds" in fields:
            self._last_swap[host] = fields["last_swap_seconds"]
        if "stage" in fields:
            self._hear_stage(host, fields["stage"])

    def _hear_stage(self, host: str, stage: str) -> None:
        self._stages[host] = stage
        self._write("stage", host)
        if stage == "drained":
            self._drained[host] = time.monotonic()
            self._begin_wave(self._wave_of.get(host, 0))
        elif stage in THROUGH and (since := self._drained.pop(host, None)):
            self._say(f"[{host}] {stage}, {span(time.monotonic() - since)} after it was drained")

    def _begin_wave(self, number: int) -> None:
        """Prints the wave's first line when its first host is drained; a wave without changes has no such line."""
        if not number or number in self._begun:
            return
        self._begun.add(number)
        wave = self._waves[number - 1]
        known = [
            max((self._last_swap.get(host, 0) for host in hosts), default=0) for hosts in self._waves[number - 1 :]
        ]
        by_last = f"; about {span(sum(known))} to the end, by the last swaps" if any(known) and not self._took else ""
        self._say(f"Wave {number} of {len(self._waves)} begins: {names(wave)}{by_last}")

    def _seconds(self) -> float:
        return round(time.monotonic() - self._operation_began, 1)

    def _write(self, event: str, host: str = "", **fields: Any) -> None:
        about = {"wave": self._wave_of.get(host, 0), "stage": self._stages.get(host, ""), "operation": self._operation}
        self._write_event(event=event, host=host, **about, **fields)

    def _say(self, text: str, level: int = logging.INFO) -> None:
        self._write("line", line=text, level=logging.getLevelName(level).lower())
        logger.log(level, text, extra={"is_ours": True})


def counted(changed: int, failed: int) -> str:
    """Number of changed hosts, and of failed ones, if any."""
    hosts = f"{changed or 'no'} host{'' if changed == 1 else 's'} changed"
    return hosts + (f", {failed} failed" if failed else "")


def names(hosts: Collection[str]) -> str:
    """The first hosts by name, and the number of the others."""
    more = len(hosts) - SHOWN
    return ", ".join(sorted(hosts)[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
