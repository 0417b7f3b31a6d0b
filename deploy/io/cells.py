"""Prints the digest of an inventory's plan once its cells are confirmed; a separate process that `cells.py` starts.

`python -m deploy.io.cells INVENTORY CELL…`: pyinfra replaces sockets and threads of the process that loads an
inventory, and Prefect needs them.
"""

import sys
from collections.abc import Sequence

from deploy.io.inventory import confirm_loads, load_inventory, load_plan
from deploy.refusals import Refusal, refuse_all
from deploy.rollout.cells import cell_problems


def confirmed_digest(inventory: str, cells: Sequence[str]) -> str:
    """The digest. Raises: a Refusal if the plan or `cell_problems` refuses."""
    confirm_loads(inventory)
    loaded, plan = load_inventory(inventory, {}), load_plan(inventory)
    groups = {name: {host.name for host in loaded.get_group(name)} for name in loaded.groups}
    refuse_all(cell_problems(cells, groups, plan))
    return plan.digest


if __name__ == "__main__":
    try:
        print(confirmed_digest(sys.argv[1], sys.argv[2:]))
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(1)
