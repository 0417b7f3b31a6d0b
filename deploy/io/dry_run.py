"""Prepares a verb as `pyinfra --dry` does, and prints each host's changes as JSON; changes nothing on any host.

A separate process (`python -m deploy.io.dry_run VERB INVENTORY WORDS`), which deploy/io/drift.py starts: pyinfra_cli
replaces the sockets and threads of the process that imports it, and has to be imported first.
"""

import pyinfra_cli  # noqa: F401  # isort: skip

import json
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyinfra
from pyinfra.api import Config
from pyinfra.api.connect import connect_all, disconnect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.state import State, StateStage
from pyinfra.context import ctx_config, ctx_inventory, ctx_state
from pyinfra_cli.util import load_deploy_file

from deploy.io.inventory import load_inventory, names_in, override_data

GATE = "Gate | "
"""Beginning of the label of a gate's step, which changes something only if a host is lost; the lost host has its own
report."""
LOGGER = "enginehouse"
"""The logger whose records carry fields (roles/_pyinfra/events.py)."""
OF_HOST = re.compile(r"\s*\[(\S+)\]\s*(.*)")


class MessageCollector(logging.Handler):
    """A log handler that keeps each host's messages, refusals of a deploy, and findings."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: dict[str, list[str]] = {}
        self.refused: dict[str, list[str]] = {}
        self.findings: dict[str, list[dict[str, Any]]] = {}
        self.archive = ""

    def emit(self, record: logging.LogRecord) -> None:
        if archive := getattr(record, "told", {}).get("archive"):
            self.archive = archive
        elif (fields := getattr(record, "told", {})).get("findings") is not None:
            self.findings[fields["host"]] = fields["findings"]
        elif record.levelno >= logging.WARNING and (host_line := OF_HOST.match(record.getMessage())):
            self.lines.setdefault(host_line[1], []).append(host_line[2])
            first, refused = (
                getattr(record, "refusal", "").partition("\n")[0],
                self.refused.setdefault(host_line[1], []),
            )
            refused += [first] if first and first not in refused else []


def look(verb: str, file: str, data: Sequence[str], limit: Sequence[str]) -> dict[str, Any]:
    """The fields of a Drift as JSON values. Raises: a Refusal if the inventory is refused."""
    pyinfra.is_cli = True
    log = MessageCollector()
    pyinfra.logger.addHandler(log)
    pyinfra.logger.getChild(LOGGER).setLevel(logging.DEBUG)
    pyinfra.logger.propagate = False
    inventory = load_inventory(file, override_data(data))
    wanted = set(names_in(inventory, limit))
    state, stopped = State(check_for_changes=True), ""
    state.cwd = str(Path.cwd())
    with ctx_state.use(state), ctx_inventory.use(inventory), ctx_config.use(Config()):
        state.init(inventory, Config(), initial_limit=[host for host in inventory if host.name in wanted])
        try:
            state.set_stage(StateStage.Connect)
            connect_all(state)
            state.set_stage(StateStage.Prepare)
            load_deploy_file(state, verb)
        except PyinfraError as error:
            stopped = "" if len(state.failed_hosts) == len(wanted) else str(error)
        steps = steps_of(state)
        disconnect_all(state)
    failed = {host.name for host in state.failed_hosts}
    return {
        "hosts": sorted(wanted),
        "steps": steps,
        "unasked": sorted(failed & wanted),
        "said": dict(sorted(log.lines.items())),
        "refused": {host: lines for host, lines in sorted(log.refused.items()) if lines},
        "findings": dict(sorted(log.findings.items())),
        "stopped": stopped,
        "archive": log.archive,
    }


def steps_of(state: State) -> dict[str, list[str]]:
    """The hosts that each step would change, in the order of the steps; steps of failed hosts are unknown."""
    first_lines: dict[str, list[str]] = {}
    for key in state.get_op_order():
        name = ", ".join(sorted(state.get_op_meta(key).names))
        hosts = (host for host in state.inventory if key in state.ops[host] and host not in state.failed_hosts)
        changed = [host.name for host in hosts if state.ops[host][key].operation_meta.will_change]
        if changed and not name.startswith(GATE):
            first_lines[name] = sorted({*first_lines.get(name, []), *changed})
    return first_lines


if __name__ == "__main__":
    verb, file, words = sys.argv[1:]
    print(json.dumps(look(verb, file, **json.loads(words))))
