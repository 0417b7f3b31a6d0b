"""A rehearsal for each module, with the number and inventory that the module names; two modules run side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rehearsal import machines, requirements, services
from rehearsal.places import Places, cache
from tests.kills.scene import Scene


@pytest.fixture(scope="module")
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Yields the module's rehearsal, removed before and afterwards."""
    number = request.module.NUMBER
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(number))
        places = Places.here()
        if lacking := [*requirements.missing(places), *requirements.missing_packages()]:
            pytest.skip(requirements.explain(lacking))
        # The test has a home directory of its own, and keeps the rehearsal's cache.
        patch.setenv("ENGINEHOUSE_CACHE", str(cache().parent))
        patch.setenv("HOME", str(places.root / "home"))
        _throw_away(places)
        try:
            yield Scene.of(number, request.module.INVENTORY)
        finally:
            _throw_away(places)


def _throw_away(places: Places) -> None:
    machines.down(places)
    services.services_down()
