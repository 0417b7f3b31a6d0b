"""Runs pyinfra's command line and counts its requests to hosts and the CPU seconds of its own process.

    python -m benchmarks.pyinfra_counters INVENTORY deploy.py -y

The last line of its output has the counts, as JSON. The shell that holds a host's lock is not counted.
"""

from __future__ import annotations

import atexit
import json
import resource
import sys
from typing import Any

_counted = {"commands": 0, "connections": 0}


def main() -> None:
    """Runs pyinfra's own command line."""
    from pyinfra_cli.main import main as pyinfra  # first: it patches the standard library

    from pyinfra.connectors.ssh import SSHConnector  # isort: skip

    for name, key in (("run_shell_command", "commands"), ("connect", "connections")):
        setattr(SSHConnector, name, _counting(getattr(SSHConnector, name), key))
    atexit.register(_tell)
    sys.argv[0] = "pyinfra"
    pyinfra()


def _counting(call: Any, key: str) -> Any:
    def counted(*arguments: Any, **more: Any) -> Any:
        _counted[key] += 1
        return call(*arguments, **more)

    return counted


def _tell() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({**_counted, "cpu_seconds": round(used.ru_utime + used.ru_stime, 2)}), flush=True)


if __name__ == "__main__":
    main()
