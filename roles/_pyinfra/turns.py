"""Makes the hosts of a run take turns at files that the control machine fetches for all of them.

pyinfra runs an operation on all hosts at once, so on a control machine with an empty cache every host would fetch the
same file to the same place, and one would read a file that another is replacing (seen: rsync found no file to send).
"""

from collections import defaultdict
from pathlib import Path

from gevent.lock import BoundedSemaphore

_turns: defaultdict[Path, BoundedSemaphore] = defaultdict(BoundedSemaphore)


def turn(path: Path) -> BoundedSemaphore:
    """The lock to hold while `path` is fetched: a second host waits, and then uses the fetched file."""
    return _turns[path]
