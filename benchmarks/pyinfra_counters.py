"""Runs pyinfra's command line and counts its requests to hosts, and its process's CPU, memory and descriptors.

    python -m benchmarks.pyinfra_counters INVENTORY deploy.py -y

The last line of its output has the counts, as JSON. The shell that holds a host's lock is not counted.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import sys
from typing import Any

_counted = {"commands": 0, "connections": 0, "open_files": 0}
"""Requests and connections so far, and the largest number of open descriptors at any of them."""


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
        _counted["open_files"] = max(_counted["open_files"], len(os.listdir("/proc/self/fd")))
        return call(*arguments, **more)

    return counted


def _tell() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {"cpu_seconds": round(used.ru_utime + used.ru_stime, 2), "memory_mib": used.ru_maxrss // 1024}
    print(json.dumps(_counted | figures), flush=True)


if __name__ == "__main__":
    main()
