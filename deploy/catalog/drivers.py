"""NVIDIA driver branches and their ends of support.

Source: NVIDIA "Supported Drivers and CUDA Toolkit Versions" and the GPU Operator life-cycle policy, read 2026-11-20;
months are taken at their last day. A branch within `BRANCH_WARNING_DAYS` of its end warns; after its end it is refused.
"""

from dataclasses import dataclass
from datetime import date

BRANCH_WARNING_DAYS = 90


@dataclass(frozen=True, kw_only=True)
class DriverBranch:
    """A branch. `newest` is its newest version on the day the table was read."""

    name: str
    kind: str
    ends: date
    newest: str = ""


_ROWS = (
    DriverBranch(name="535", kind="long-term support", ends=date(2026, 6, 30), newest="535.309.01"),
    DriverBranch(name="570", kind="production", ends=date(2026, 2, 28)),
    DriverBranch(name="580", kind="long-term support", ends=date(2028, 8, 31), newest="580.178.04"),
    DriverBranch(name="590", kind="new feature", ends=date(2026, 12, 31), newest="590.48.01"),
    DriverBranch(name="595", kind="production", ends=date(2027, 3, 31), newest="595.91.07"),
    DriverBranch(name="610", kind="new feature", ends=date(2026, 8, 31), newest="610.57.04"),
)

DRIVER_BRANCHES: dict[str, DriverBranch] = {row.name: row for row in _ROWS}
