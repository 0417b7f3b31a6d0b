"""Takes a host out of its balancer before something interrupts it, and puts it back.

No balancer can be declared yet: one host serves its clients directly, and Triton itself lets the requests in flight end
(the stop times in roles/triton/times.py). So both do nothing, and say so with `-v`. They belong in deploy.py all the
same: the place between them is where interruptions go. When a balancer can be declared, a drain becomes a lease that
ends by itself, because nothing that must happen after a failure may be an operation.
"""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation

from deploy.slice import Slice


@operation()
def drain(mine: Slice) -> Generator[str, None, None]:
    """No new request reaches this host, where something in front of it decides that."""
    host.noop(f"{mine.host} has no balancer in front of it")
    yield from ()


@operation()
def admit(mine: Slice) -> Generator[str, None, None]:
    """Requests reach this host again."""
    host.noop(f"{mine.host} has no balancer in front of it")
    yield from ()
