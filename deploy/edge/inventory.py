"""Loads inventories through pyinfra and makes their plans in the surroundings of this machine.

`planned` is what `deploy.py` and the verbs beside it call; `load_plan` is for `enginehouse` and for programs. pyinfra
is imported only when an inventory is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from deploy.edge.engine_inputs import input_problems
from deploy.edge.engine_records import with_engines
from deploy.edge.local_weights import look_around
from deploy.edge.mistakes import explained
from deploy.errors import refuse_all
from deploy.fleet import Fleet
from deploy.plan import Plan, make_plan
from deploy.refuse import refuse

_plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()


def planned(inventory: Any, host: Any) -> Plan:
    """The plan of the whole inventory, made once for all its hosts and seen from those of `--limit`.

    `--data expect=DIGEST` refuses any other plan. So is one whose engines need something this machine does not have.
    """
    real = getattr(host, "inventory", inventory)
    if real not in _plans:
        made = _plan_of(real)
        refuse_all(input_problems(made.slices, Path.cwd()))
        _plans[real] = made
    limited = getattr(getattr(real, "state", None), "limit_hosts", None)
    return _plans[real].only(one.name for one in limited) if isinstance(limited, list) else _plans[real]


def _plan_of(inventory: Any) -> Plan:
    """The plan of an inventory in the surroundings of this machine."""
    fleet, root = Fleet.of(inventory), Path.cwd()
    return make_plan(fleet, with_engines(look_around(fleet, root), inventory, fleet, root))


def load_inventory(file: str, data: dict[str, Any]) -> Any:
    """pyinfra's own reading of an inventory: group data, host data, and `data` above both."""
    from pyinfra.api.state import State
    from pyinfra.context import ctx_state
    from pyinfra_cli.exceptions import UnexpectedExternalError
    from pyinfra_cli.inventory import make_inventory

    if not Path(file).is_file():
        raise refuse(
            "no-inventory",
            f"there is no inventory {file}",
            where=file,
            seen="no such file",
            wanted="a Python file with hosts, such as inventories/h100.py",
            attempt="enginehouse plan inventories/h100.py",
        )
    with ctx_state.use(State()):
        try:
            return make_inventory(file, override_data=data, cwd=str(Path.cwd()))
        except UnexpectedExternalError as error:
            raise explained(error.exception, file) from None


def load_plan(file: str, data: Iterable[str] = (), limit: Iterable[str] = ()) -> Plan:
    """The plan of an inventory file, for programs such as the smoke tests; `data` and `limit` as pyinfra takes them."""
    loaded = load_inventory(file, override_data(data))
    return _plan_of(loaded).only(names_in(loaded, limit))


def host_data(file: str, data: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    """What the inventory says about each host, by name, typed objects and connector settings alike."""
    return {host.name: host.data.dict() for host in load_inventory(file, override_data(data))}


def names_in(inventory: Any, limit: Iterable[str]) -> list[str]:
    """Hosts of these groups, names or patterns, as pyinfra's `--limit` takes them; all without any."""
    if not limit:
        return [host.name for host in inventory]
    from pyinfra_cli.cli import _apply_inventory_limit

    return [host.name for host in _apply_inventory_limit(inventory, tuple(limit))]


def override_data(pairs: Iterable[str]) -> dict[str, Any]:
    """`--data key=value`, read as pyinfra reads it."""
    from pyinfra_cli.util import parse_cli_arg

    split = (pair.partition("=") for pair in pairs)
    return {key: parse_cli_arg(value) for key, _, value in split}
