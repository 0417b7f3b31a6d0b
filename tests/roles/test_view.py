"""Lines that a View shows: lines of pyinfra's log, and its own lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deploy.refusals.errors import Refusal
from roles._pyinfra.events import EventFile
from roles._pyinfra.view import View, plain


@dataclass
class Seen:
    """A View between a logger and the terminal, without pyinfra."""

    view: View
    events: list[dict[str, Any]]
    lines: list[str] = field(default_factory=list)

    def say(self, text: str, level: int = logging.INFO, **more: Any) -> None:
        """Logs a line of pyinfra."""
        record = logging.LogRecord("pyinfra", level, "", 0, text, (), None)
        record.__dict__.update(more)
        if self.view.filter(record):
            self.lines.append(text)


def seen(many: bool = True, shows_all: bool = False) -> Seen:
    """A View before its first line."""
    events: list[dict[str, Any]] = []
    return Seen(View(lambda **event: events.append(event), shows_all, many), events)


def operation(to: Seen, name: str, **results: str) -> None:
    """Logs an operation of pyinfra and its results, by host."""
    to.say(f"--> Starting operation: {name} ")
    for host, result in results.items():
        to.say(f"[{host}] {result}")


@pytest.fixture
def own_lines() -> Iterator[list[str]]:
    """Lines that Views log themselves."""
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    logger = logging.getLogger("pyinfra")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield heard
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_200_hosts_in_21_waves_are_fewer_than_2000_lines(own_lines: list[str]) -> None:
    """A first deploy: 585 operations, each with a line for each host; every wave has the same changes."""
    hosts = [f"h{number:03}" for number in range(200)]
    waves = [hosts[:1], *(hosts[1 + 10 * number : 11 + 10 * number] for number in range(20))]
    run = seen()
    run.say("", told={"host": "", "waves": waves})
    for number in range(60):
        operation(run, f"Stage | {number}", **dict.fromkeys(hosts, "Success" if number % 2 else "No changes"))
    operation(run, "Gate | Every host has image, weights and engines", **dict.fromkeys(hosts, "No changes"))
    for number, wave in enumerate(waves, start=1):
        for number in range(24):
            done = "No changes" if number % 4 else "Success"
            operation(run, f"Triton | {number}", **{host: done if host in wave else "Skipped" for host in hosts})
        operation(run, f"Gate | Wave {number} of 21", **dict.fromkeys(hosts, "No changes"))
    run.say("--> Results:")
    for number in range(585):
        run.say(
            f"    Triton | {number}    200    {'-' if number % 4 else 200}    -    {200 if number % 4 else '-'}    "
        )
    blank = sum("-->" not in line for line in own_lines)
    assert len(run.lines) + len(own_lines) + blank < 2000
    assert sum(event["event"] == "result" for event in run.events) == 62 * 200 + 21 * 200 + 24 * 200 - 200


def test_a_finished_wave_reports_its_duration_and_the_remaining_hosts(own_lines: list[str]) -> None:
    """The estimate comes from earlier waves, and for the first wave from the last swaps of its hosts."""
    run = seen()
    run.say("", told={"host": "", "waves": (("a",), ("b", "c"))})
    for host, seconds in (("a", 100.0), ("b", 300.0), ("c", 1000.0)):
        run.say("", told={"host": host, "last_swap_seconds": seconds})
    operation(run, "Gate | Every host has image, weights and engines")
    for number, wave in ((1, "a"), (2, "bc")):
        run.say("--> Starting operation: Triton | Swap ")
        for host in wave:
            run.say("", told={"host": host, "stage": "drained"})
            run.say(f"[{host}] Success")
        for host in wave:
            run.say("", told={"host": host, "stage": "passed"})
        operation(run, f"Gate | Wave {number} of 2", **dict.fromkeys("abc", "No changes"))
    run.say("--> Results:")
    assert own_lines == [
        "Wave 1 of 2 begins: a; about 18 min to the end, by the last swaps",
        "[a] passed, 0 s after it was drained",
        "1 host changed, in 0 s",
        "Wave 1 of 2 passed its gate: 1 host changed, in 0 s; 0 s since the run began; about 0 s for the rest",
        "Wave 2 of 2 begins: b, c",
        "[b] passed, 0 s after it was drained",
        "[c] passed, 0 s after it was drained",
        "2 hosts changed, in 0 s",
        "Wave 2 of 2 passed its gate: 2 hosts changed, in 0 s; 0 s since the run began",
    ]


def test_a_few_hosts_have_all_their_lines_but_those_that_were_skipped() -> None:
    """An operator who knows pyinfra finds its usual lines."""
    run = seen(many=False)
    operation(run, "Triton | Swap", a="Success", b="Skipped", c="No changes")
    assert run.lines == ["--> Starting operation: Triton | Swap ", "[a] Success", "[c] No changes"]


def test_verbose_output_shows_everything() -> None:
    """The option is `-v`."""
    run = seen(shows_all=True)
    operation(run, "Triton | Swap", a="Success", b="Skipped")
    assert run.lines[1:] == ["[a] Success", "[b] Skipped"]


def test_a_warning_of_one_host_among_many_is_shown() -> None:
    """The host's other output stays hidden."""
    run = seen()
    run.say("[a] fetched 3 of 9 layers")
    run.say("[a] held by somebody", logging.WARNING)
    assert run.lines == ["[a] held by somebody"]


def test_hosts_that_refuse_differently_are_all_shown() -> None:
    """Two equal lines may belong to two messages."""
    run = seen()
    run.say("--> Starting operation: Preflight | Confirm the machine ")
    for host in "ab":
        for line in (f"{host} has no room", "  try  mend it"):
            run.say(f"[{host}] {line}", logging.ERROR, refusal=f"{host} has no room\n  try  mend it")
        run.say(f"[{host}] Error: executed 0 commands", logging.ERROR)
    assert len(run.lines) == 7


def test_a_dry_run_of_many_operations_shows_the_changes() -> None:
    """The screen has the rows of pyinfra's tables with changes, and the sum."""
    run = seen()
    for line in ("--> Detected changes:", "Operation   Change   Conditional", "A | One   -    -    ",
                 "A | Two   2 (a, b)   -   ", "--> Results:", "A | One   9   -   -   9   ",
                 "A | Two   9   -   1   8   ", "Grand total   18   -   -   18   "):  # fmt: skip
        run.say(line)
    shown = ["Operation   Change   Conditional", "A | Two   2 (a, b)   -   ", "A | Two   9   -   1   8   "]
    assert [line for line in run.lines if "-->" not in line] == [*shown, "Grand total   18   -   -   18   "]


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        EventFile(str(tmp_path / "none" / "events"), "run")
    assert str(refused.value) == (
        "the events of this run cannot be written\n"
        f"  where  --data events={tmp_path}/none/events\n"
        "  said   No such file or directory\n"
        "  try    name a file in an existing directory that you can write\n"
        "  state  no host was asked anything"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this machine")
def test_a_disk_that_is_full_does_not_end_the_run(own_lines: list[str]) -> None:
    events = EventFile("/dev/full", "run")
    events.write(event="line")
    events.write(event="line")
    assert own_lines == ["no more events are written to /dev/full: No space left on device"]


def test_control_characters_of_a_host_are_shown_as_text_and_pyinfra_s_colours_stay() -> None:
    """A host's escapes could overwrite other lines, or write to the clipboard."""
    text = "\x1b[31mfailed\x1b[0m \x1b]52;c;cm0=\x07\x1b[2J\x9b\u202e"
    assert plain(text) == "\x1b[31mfailed\x1b[0m \\u001b]52;c;cm0=\\u0007\\u001b[2J\\u009b\\u202e"
