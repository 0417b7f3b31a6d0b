"""The edge of `deploy/`: loads inventories through pyinfra, reads the clock and local checkpoints, prints plans.

`planned` is what `deploy.py` calls; `main` is the command `enginehouse`. With `deploy.errors` the only place that
imports pyinfra, and only when it is needed: a plan is printed in well under a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from deploy.edge.local_weights import look_around
from deploy.fleet import Fleet
from deploy.plan import Plan, make_plan

_plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()


def planned(inventory: Any, host: Any) -> Plan:
    """The plan of the whole inventory, made once for all its hosts and seen from those of `--limit`.

    `--data expect=` is honoured.
    """
    real = getattr(host, "inventory", inventory)
    if real not in _plans:
        fleet = Fleet.of(real)
        _plans[real] = make_plan(fleet, look_around(fleet, Path.cwd()))
    limited = getattr(getattr(real, "state", None), "limit_hosts", None)
    return _plans[real].only(one.name for one in limited) if isinstance(limited, list) else _plans[real]


def load_inventory(file: str, data: dict[str, Any]) -> Any:
    """pyinfra's own reading of an inventory: group data, host data, and `data` above both."""
    from pyinfra.api.state import State
    from pyinfra.context import ctx_state
    from pyinfra_cli.inventory import make_inventory

    with ctx_state.use(State()):
        return make_inventory(file, override_data=data, cwd=str(Path.cwd()))
