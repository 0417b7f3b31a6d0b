"""The settings of roles that an inventory may override, read from roles/ as deploy.py reads them."""

from deploy.inventory.knobs import Table


def knobs() -> Table:
    """The settings an inventory may override, by role."""
    from roles._pyinfra.settings import known_settings

    return known_settings()
