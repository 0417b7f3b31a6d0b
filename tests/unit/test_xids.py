"""The Xid table agrees with NVIDIA's catalogue; the numbers here are copied from the catalogue itself."""

from __future__ import annotations

import re

import pytest

from deploy.catalog.xids import XIDS

ASKED = {
    "reset": (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    "restart host": (79,),
    "restart virtual machine": (151,),
    "workflow": (45, 48, 74, 144, 145, 146, 147, 148, 149, 150),
    "check cables": (54,),
    "read the driver's action": (154,),
    "check unified memory": (159,),
    "restart application": (8, 11, 13, 31, 94),
    "ignore": (43, 63, 92, 121, 137, 157, 160, 161),
}
"""Immediate actions of the catalogue's edition of 2025-10-29, read 2026-11-22."""


@pytest.mark.parametrize(("action", "numbers"), ASKED.items())
def test_every_xid_has_the_action_of_nvidias_catalogue(action: str, numbers: tuple[int, ...]) -> None:
    """No row is missing, and no reset is required if the catalogue says to ignore."""
    assert {number: XIDS[number].action for number in numbers} == dict.fromkeys(numbers, action)


def test_a_number_is_a_reset_only_where_the_catalogue_asks_for_one_or_its_workflow_ends_in_one() -> None:
    """Xid 45 follows another Xid; the workflows of the other numbers end in a reset."""
    resets = {number for number, row in XIDS.items() if row.remedy == "reset"}
    assert resets == {*ASKED["reset"], *ASKED["workflow"]} - {45}


@pytest.mark.parametrize("number", range(167, 173))
def test_a_number_without_an_action_in_the_catalogue_has_a_row_and_stops_nothing(number: int) -> None:
    """For a number without an action, the driver's own recovery action decides."""
    assert (XIDS[number].action, XIDS[number].stops(8)) == ("none named", False)


def test_an_nvlink_error_stops_nothing_on_a_host_of_one_gpu() -> None:
    """A single GPU has no peer."""
    assert [(XIDS[74].stops(1), XIDS[74].stops(2)), (XIDS[48].stops(1), XIDS[48].stops(2))] == [
        (False, True),
        (True, True),
    ]


def test_every_row_is_dated() -> None:
    """The row has the edition, and the day it was read."""
    assert [row.number for row in XIDS.values() if not re.search(r"read 2026-11-\d\d", row.source)] == []


def test_no_number_has_two_rows() -> None:
    """The last of two rows with the same number would win unnoticed."""
    from deploy.catalog import xids

    assert len(xids._ROWS) == len(XIDS)
