"""The 29 operations on every host of the inventory, as a role of this project does them."""

from pyinfra import host

import roles._pyinfra.connections
from benchmarks.side_by_side.looks import Looked
from benchmarks.side_by_side.operations import operations
from roles._pyinfra import quiet
from roles._pyinfra.steps import CachedFact, step

roles._pyinfra.connections.install(host)
for operation in operations(host.name):
    step(CachedFact(Looked, {"shell": operation.look}), operation.decide, name=f"Side | {operation.name}")
quiet.recheck()
quiet.settle()
