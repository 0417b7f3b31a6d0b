"""Mistakes in an inventory that is Python, explained: a misspelt keyword, an exception, a connector, `--limit`."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path

from deploy import spec
from deploy.catalog.names import nearest, offer
from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse
from deploy.refusals.renamed import renamed

KEYWORD = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")
IMPORTED = re.compile(r"cannot import name '(\w+)' from 'deploy\b")
CONNECTORS = ("docker", "dockerssh", "local", "ssh", "terraform", "vagrant")
"""Connectors of pyinfra that somebody may want in an inventory."""


def explained(error: Exception, file: str) -> Refusal:
    """The refusal that says why running the file ended with `error`."""
    place = f"{file}{_line_of(error, file)}"
    if (imported := IMPORTED.search(str(error))) and (problem := renamed(imported[1], place, file)):
        return problem
    match = KEYWORD.search(str(error))
    kind = getattr(spec, match.group(1), None) if match else None
    if not match or not is_dataclass(kind):
        return refuse(
            "inventory-error",
            f"{file} is Python, and it ended with {type(error).__name__}",
            where=place,
            seen=str(error) or type(error).__name__,
            wanted="a file Python can run",
            attempt=f"python {file}",
        )
    keyword, name = match.group(2), match.group(1)
    if problem := renamed(keyword, f"{place}: {name}({keyword}=…)", file):
        return problem
    translated = " (a fraction bounds nothing here: tokens=…)" if "fraction" in keyword else ""
    return refuse(
        "unknown-setting",
        f"{name} has no setting `{keyword}`",
        where=f"{place}: {name}({keyword}=…)",
        seen=keyword,
        wanted="a setting of deploy/spec.py",
        attempt=offer(keyword, [field.name for field in fields(kind)]) + translated,
    )


def _line_of(error: Exception, file: str) -> str:
    """`:12` if the exception came from line 12 of `file`, also through a call from there; else empty."""
    frames = traceback.extract_tb(getattr(error, "_traceback", None) or error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f":{lines[-1]}" if lines else ""


def connector_refusal(error: Exception, file: str) -> Refusal:
    """The refusal that says why a host that begins with `@`, which pyinfra asks a connector for, could not be read."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    unknown = re.fullmatch(r"Invalid connector: (.*)", lines[0] if lines else "")
    name, place = _connector_in(file, unknown[1] if unknown else "")
    if unknown:
        return refuse(
            "unknown-connector",
            f"pyinfra has no connector @{unknown[1]}",
            where=f"{file}{place}",
            seen=name or f"@{unknown[1]}",
            wanted="a host's name or address, or a connector pyinfra has",
            attempt=offer(unknown[1], [f"@{known}" for known in CONNECTORS]),
        )
    program = name.lstrip("@").partition("/")[0]
    return refuse(
        "connector-answer",
        f"{name or 'a connector'} names no hosts here",
        where=f"{file}{place}",
        seen=" · ".join(lines) or type(error).__name__,
        wanted="a connector whose program answers in this directory with hosts",
        attempt=_ATTEMPTS.get(program, "write the hosts' names or addresses into the inventory"),
    )


_ATTEMPTS = {
    "terraform": "terraform output -json, in this directory; then name one of its keys: @terraform/KEY.value",
    "vagrant": "vagrant status, in this directory",
    "dockerssh": "@dockerssh/HOST:IMAGE",
    "docker": "@docker/IMAGE",
}


def _connector_in(file: str, connector: str) -> tuple[str, str]:
    """The first text of the file that begins with `@` and `connector`, and its place as `:line:column`."""
    for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(f"@{connector}"):
            return node.value, f":{node.lineno}:{node.col_offset + 1}"
    return "", ""


def no_host_in_limit(word: str, hosts: Iterable[str], groups: Iterable[str]) -> Refusal:
    """The refusal of a `--limit` that matches no host of the inventory."""
    names, group_names = sorted(hosts), sorted(groups)
    close = nearest(word, [*names, *group_names])
    return refuse(
        "no-host-in-limit",
        f"--limit {word} matches no host of this inventory",
        where=f"--limit {word}",
        seen=f"hosts {', '.join(names[:8])}{f' and {len(names) - 8} more' if len(names) > 8 else ''}",
        wanted=f"a host's name, a pattern such as 'h100-*', or a group: {', '.join(group_names)}",
        attempt=f"--limit {close or (names or ['HOST'])[0]}",
    )
