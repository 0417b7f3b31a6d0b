"""Replaced attributes of pyinfra and paramiko: unchanged upstream, listed on the page, and not replaced on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from roles._pyinfra import order

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "roles/README.md"
BEGIN, END = "<!-- replaced: tests/roles/test_upstream.py writes this -->\n", "\n<!-- end of replaced -->"
READ = {
    "pyinfra.api.operation.get_operation_order_from_stack": "f4807f61585570e0",
    "pyinfra.api.operation.signature": "function inspect",
    "pyinfra.api.operation.context": "module pyinfra.context",
    "pyinfra.api.arguments.all_global_arguments": "f7afbc472d78c5d2",
    "pyinfra.api.facts.all_global_arguments": "f7afbc472d78c5d2",
    "pyinfra.api.operation.pop_global_arguments": "a12a311539ff5068",
    "pyinfra.api.facts.pop_global_arguments": "a12a311539ff5068",
    "pyinfra.context.ContextObject.__getattr__": "9a7ac623fa312faa",
    "paramiko.config.getpass": "module getpass",
    "paramiko.transport.Transport._active_check_timeout": "float 0.1",
    "pyinfra.connectors.ssh.SSHConnector.run_shell_command": "6e742d04535439d4",
    "pyinfra.connectors.ssh.SSHConnector.connect": "32da021d77c0af3e",
    "pyinfra.api.inventory.Inventory.make_hosts_and_groups": "7723e874f34a42ae",
}
"""Content of each attribute in pyinfra 3.10.0 and paramiko 4.0.0: a value, another package's name, or the first 16 hex
digits of its source's SHA-256. After a changed digest, upstream's code has to be compared with ours again."""

SEEN = """
import hashlib, importlib, inspect, json, sys
from roles._pyinfra import order
if sys.argv[1:]:
    order.install()
seen = {}
for name in order.REPLACED:
    owner, _, attribute = name.rpartition(".")
    module, _, last = owner.rpartition(".")
    holder = getattr(importlib.import_module(module), last) if last[0].isupper() else importlib.import_module(owner)
    value = getattr(holder, attribute)
    home = getattr(value, "__module__", None) or getattr(value, "__name__", repr(value))
    is_theirs = inspect.isfunction(value) and home.startswith(("pyinfra", "paramiko"))
    kind = type(value).__name__
    seen[name] = hashlib.sha256(inspect.getsource(value).encode()).hexdigest()[:16] if is_theirs else f"{kind} {home}"
print(json.dumps(seen))
"""


def seen(*arguments: str, **variables: str) -> dict[str, str]:
    """The value of each attribute in a new process; with an argument, after `install`."""
    words = [
        sys.executable,
        "-c",
        SEEN.replace("import hashlib, importlib,", "import hashlib, importlib, importlib.util,"),
    ]
    environment = {name: value for name, value in os.environ.items() if name != order.UNCHANGED} | variables
    done = subprocess.run([*words, *arguments], cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def test_upstream_code_that_is_replaced_is_unchanged() -> None:
    """A new version of upstream's code may do more than our replacement."""
    assert seen() == READ


def test_install_replaces_each_attribute_of_the_list_but_those_of_connections_and_here() -> None:
    now = seen("install")
    assert [name for name in READ if now[name] == READ[name]] == [
        "pyinfra.connectors.ssh.SSHConnector.run_shell_command",
        "pyinfra.connectors.ssh.SSHConnector.connect",
        "pyinfra.api.inventory.Inventory.make_hosts_and_groups",
    ]


def test_with_the_switch_pyinfra_and_paramiko_stay_as_they_are() -> None:
    assert seen("install", **{order.UNCHANGED: "1"}) == READ


def test_the_page_lists_what_is_replaced_and_why() -> None:
    rows = [f"| `{name}` | {reason} |" for name, reason in order.REPLACED.items()]
    table = "\n".join(["", "| replaced | upstream's own |", "| --- | --- |", *rows, ""])
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    listed, after = rest.split(END)
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(before + BEGIN + table + END + after, "utf-8")
        return
    assert listed == table
