"""The operator's own models, as the program that puts a server into service loads them."""

from __future__ import annotations

from pathlib import Path

from tests.roles.triton.test_prove import RIGHT, call, place
from tests.roles.web import Answer

__all__ = ["place"]


def test_the_operators_own_models_load_last_and_are_only_checked_for_readiness(place: Path) -> None:
    status, _, triton = call(place, RIGHT, own_models=["spam"])
    paths = [request.path.removeprefix("/v2/") for request in triton.requests]
    assert (status, paths[-2:]) == (0, ["repository/models/spam/load", "models/spam/ready"])


def test_a_release_does_not_serve_without_the_operators_own_model(place: Path) -> None:
    broken: Answer = (400, {}, b'{"error": "CUDA out of memory"}')
    status, reason, _ = call(place, {**RIGHT, "/v2/repository/models/spam/load": broken}, own_models=["spam"])
    assert (status, reason) == (1, "spam does not load: CUDA out of memory")
