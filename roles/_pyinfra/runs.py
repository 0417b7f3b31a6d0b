"""Identity of a run: the name in the hosts' histories, the person who typed it, and the time."""

import getpass
import socket
import time
from dataclasses import dataclass
from secrets import token_hex
from weakref import WeakKeyDictionary

from pyinfra.api import State


@dataclass(frozen=True)
class Run:
    """A run of a verb."""

    id: str
    """Id of a run: unique, and sorted by the time of its start."""
    since: str
    """Universal time, to the second."""
    who: str
    """The user who typed the run's command, and the machine."""


def this_run(state: State) -> Run:
    """The run of `state`: the same object at every call, on all its hosts."""
    if state not in _runs:
        began = time.gmtime()
        _runs[state] = Run(
            f"{time.strftime('%Y%m%d-%H%M%S', began)}-{token_hex(2)}",
            time.strftime("%Y-%m-%dT%H:%M:%SZ", began),
            f"{getpass.getuser()}@{socket.gethostname()}",
        )
    return _runs[state]


_runs: WeakKeyDictionary[State, Run] = WeakKeyDictionary()
