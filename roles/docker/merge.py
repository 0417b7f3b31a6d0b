"""daemon.json and containerd's config.toml, merged key by key: this project's keys are set, all others stay. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any

from roles.docker.defaults import Defaults


def own_keys(current: Mapping[str, Any], chosen: Defaults, data_root: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that this project sets, for the present file; `extra` are the inventory's keys and win.

    A log driver that the host already chose is kept, except that json-file, Docker's unbounded default, gets bounds.
    The limit of open files is not set: Docker 29 lowered it for every container, and our containers set their own.
    """
    keys: dict[str, Any] = {"features": {"cdi": True}}
    bounds = {"max-size": f"{chosen.log_max_mib}m", "max-file": str(chosen.log_files)}
    # Options without a driver are those of json-file, the default; with `local`, which knows fewer, the daemon would
    # not start.
    driver = current.get("log-driver") or ("json-file" if current.get("log-opts") else None)
    if driver is None:
        keys |= {"log-driver": "local", "log-opts": bounds}
    elif driver == "json-file":
        keys["log-opts"] = {**bounds, **current.get("log-opts", {})}
    if data_root:
        keys["data-root"] = data_root
    return merged(keys, extra)


def merged(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """`current` with the keys of `wanted`; dictionaries inside are merged the same way, lists are replaced whole."""
    result = dict(current)
    for key, value in wanted.items():
        inside = result.get(key)
        if isinstance(value, Mapping) and isinstance(inside, Mapping):
            result[key] = merged(inside, value)
        else:
            result[key] = value
    return result


def as_file(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, indent=4) + "\n"


def with_root(config: str, root: str) -> str:
    """containerd's configuration with its top-level `root` set; unchanged if it is set already.

    It is edited line by line, because a TOML writer would drop the comments. A key before the first table is a
    top-level key.
    """
    line = f'root = "{root}"'
    table = re.search(r"(?m)^[ \t]*\[", config)
    head, tables = (config[: table.start()], config[table.start() :]) if table else (config, "")
    match = re.search(r"(?m)^root\s*=.*$", head)
    if match:
        return config if match.group(0) == line else head[: match.start()] + line + head[match.end() :] + tables
    return f"{head.rstrip()}\n{line}\n\n{tables}".lstrip("\n")
