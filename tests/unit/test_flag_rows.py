"""The flag table of the catalog compared with the flags in upstream's source, stored in a file of another form.

`tests/golden/flag_rows.txt` holds the readings of upstream's source as differences between releases; no test writes it.
A row that is changed on purpose is changed there too, after reading that release's source again. The rehearsal, whose
stand-in compiler is a second reading, notices errors of the reading itself.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.catalog import flags
from deploy.catalog.flags import FAMILIES, Flag
from tests.unit.golden import DIRECTORY

UPSTREAM = DIRECTORY / "flag_rows.txt"
DATA = flags._data()


def upstream() -> dict[str, set[str]]:
    """The flags of every reading, `program release` by the words of each flag; later readings are stored as
    differences."""
    readings: dict[str, set[str]] = {}
    program, present = "", set[str]()
    for line in UPSTREAM.read_text("utf-8").splitlines():
        if line.startswith("["):
            reading = line.strip("[]")
            present = set(present) if reading.rpartition(" ")[0] == program else set()
            program = reading.rpartition(" ")[0]
            readings[reading] = present
        elif line.startswith("- "):
            present.remove(line.removeprefix("- "))
        elif line and not line.startswith("#"):
            assert line.removeprefix("+ ") not in present, line
            present.add(line.removeprefix("+ "))
    return readings


def rows(data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of the table with its program and release."""
    programs = {"trtllm-build": data, "quantize.py": data["_quantize.py"]}
    programs |= {f"convert_checkpoint.py {family}": data["_convert_checkpoint"][family] for family in FAMILIES}
    for program, releases in programs.items():
        for release, row in releases.items():
            if release[0].isdigit() and row:
                yield f"{program} {release}", row


def spelt(flag: Flag) -> str:
    """A flag as a line of the file."""
    takes = "switch" if flag.is_switch else f"{flag.type}{flag.values}"
    choices = ["{" + ",".join(flag.choices) + "}"] if flag.choices else []
    return " ".join([flag.name, *flag.aliases, takes, *choices, *(["required"] if flag.required else [])])


def table(data: Any) -> dict[str, set[str]]:
    """The same readings, from the catalog."""
    return {reading: {spelt(flags._flag(name, facts)) for name, facts in row.items()} for reading, row in rows(data)}


@pytest.mark.parametrize("reading", [reading for reading, _ in rows(DATA)])
def test_every_flag_of_a_row_is_upstreams(reading: str) -> None:
    """Name, aliases, type and choices are compared."""
    assert table(DATA)[reading] == upstream()[reading]


def test_every_reading_of_upstream_has_a_row() -> None:
    """A missing row would not be noticed above."""
    assert set(upstream()) == {reading for reading, _ in rows(DATA)}


def test_a_flag_renamed_in_any_row_is_found() -> None:
    """Every flag of every row, one after the other, is renamed; the comparison above notices each."""
    wanted, unseen, renamed = upstream(), [], 0
    for reading, row in rows(DATA):
        for name in row:
            changed = {(f"{name}s" if flag == name else flag): facts for flag, facts in row.items()}
            renamed += 1
            if {spelt(flags._flag(flag, facts)) for flag, facts in changed.items()} == wanted[reading]:
                unseen.append(f"{reading}: {name}")
    assert (renamed > 1000, unseen) == (True, [])


def test_the_renamed_flag_that_once_went_unseen_is_found() -> None:
    """`--gemm_plugin` of the 0.11.0 row, which no other test reads."""
    data = copy.deepcopy(DATA)
    data["0.11.0"]["--gemm_plugins"] = data["0.11.0"].pop("--gemm_plugin")
    assert table(data)["trtllm-build 0.11.0"] != upstream()["trtllm-build 0.11.0"]


def test_many_unknown_flags_read_the_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 1 MiB has 30,000 flags; one of 128 KiB took 40 seconds of CPU while each flag read all rows."""
    table = flags.build_flags("1.2.1")
    before = flags.rows_with(flags.BUILD, "--first"), table.find("--max_batch_size")
    monkeypatch.setattr(flags, "_flag", None)
    assert before == (flags.rows_with(flags.BUILD, "--second"), table.find("--max_batch_size"))
