"""All checks of all hosts, one list. The order of the modules is the order of the report."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.errors import Refusal
from deploy.fleet import Fleet
from deploy.refuse import together
from deploy.surroundings import Surroundings


def judge(fleet: Fleet, surroundings: Surroundings) -> list[Refusal]:
    """Every refusal of every host, each one once."""
    return together(fleet.unread)


def notices(fleet: Fleet, surroundings: Surroundings) -> Iterator[str]:
    """What an operator should know although nothing is wrong."""
    yield from ()
