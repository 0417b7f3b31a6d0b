"""Sources of support hosts in the plan's text: balancers and monitors."""

from typing import Any


def without_sources(plain: dict[str, Any]) -> dict[str, Any]:
    """The dictionary of a slice without mirrors and signer, which follow from the bundle, and without an empty bundle.

    Digests of inventories without bundles stay as they were.
    """
    derived = {"mirrors", "engine_trust", *(["bundle"] if not plain["bundle"] else [])}
    return {key: value for key, value in plain.items() if key not in derived}
