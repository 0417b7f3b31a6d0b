"""The settings of roles that an inventory may override; beside deploy.py the one place where deploy/ reads roles/."""

from __future__ import annotations

from deploy.inventory.knobs import Table


def knobs() -> Table:
    """The settings an inventory may override, by role."""
    from roles._pyinfra.settings import known_settings

    return known_settings()
