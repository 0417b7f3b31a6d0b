"""`enginehouse init`: a machine's answers become an inventory that can be planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.edge.ask import QUESTIONS, inventory_text, write_inventory
from deploy.edge.inventory import load_inventory
from deploy.errors import Refusal
from deploy.fleet import Fleet
from deploy.spec import Machine
from tests.unit.given import AROUND

ANSWERS = """os=debian-12
gpu=10de:2330
gpu=10de:2330
gpu=1234:1111
bridge=10de
memory_kib=2097152
disk_mib=900000
secure_boot=0
"""


def written(directory: Path, answers: str = ANSWERS) -> Fleet:
    """The fleet of the inventory written from these answers."""
    file = write_inventory(directory, "ubuntu@203.0.113.7", inventory_text("ubuntu@203.0.113.7", answers))
    return Fleet.of(load_inventory(str(file), {}))


def test_the_machine_is_what_it_said(tmp_path: Path) -> None:
    """Two H100s with NVSwitches, 2 GiB, 900,000 MiB free, a display adapter that is not counted."""
    assert written(tmp_path).hosts[0].machine == Machine(
        os="debian-12", gpu="h100-80", gpus=2, memory_mib=2048, disk_mib=900_000, nvswitch=True
    )


def test_what_is_written_can_be_planned(tmp_path: Path) -> None:
    """At once, and nothing has to be filled in."""
    from deploy.plan import make_plan

    assert make_plan(written(tmp_path), AROUND).hosts == ("203.0.113.7",)


def test_an_unknown_card_is_refused_by_the_plan_and_named_in_the_file(tmp_path: Path) -> None:
    """Nothing is guessed."""
    text = inventory_text("host", ANSWERS.replace("2330", "ffff"))
    assert "found 10de:ffff, which is not in the catalog" in text


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """An inventory may have grown since."""
    written(tmp_path)
    with pytest.raises(Refusal) as refused:
        written(tmp_path)
    assert refused.value.kind == "inventory-exists"


def test_the_questions_change_nothing() -> None:
    """They read, and write to nobody's file."""
    assert not [word for word in ("sudo", "rm ", "tee", "> /", "apt") if word in QUESTIONS]
