"""Runs the 29 operations on every host of the inventory like a role of this project, under deploy.py's lock."""

from pyinfra import host

import roles._pyinfra.connections
from benchmarks.side_by_side.looks import Looked
from benchmarks.side_by_side.operations import operations
from roles._pyinfra import lock, quiet
from roles._pyinfra.steps import CachedFact, step

roles._pyinfra.connections.install(host)
lock.take("side by side")
for operation in operations(host.name):
    step(CachedFact(Looked, {"shell": operation.look}), operation.decide, name=f"Side | {operation.name}")
quiet.recheck()
quiet.leave_out_unchanged()
