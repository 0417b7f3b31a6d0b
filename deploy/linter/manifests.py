"""Reads the containers out of a compose file or a Kubernetes manifest: the image of each, and the command it runs.

Only `image`, `entrypoint`, `command` and `args` are read, and only as people write them: on one line, as a list in
brackets, as a list of lines, or folded. The rest of the file is not judged.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

KEY = re.compile(r"^(?P<indent>[ ]*)(?P<dash>-[ ]+)?(?P<key>image|entrypoint|command|args):(?:[ ]+(?P<value>.*))?$")
IS_MANIFEST = re.compile(r"^\s*(?:services|apiVersion|kind|version|spec|containers|name):", re.MULTILINE)
FOLDED = re.compile(r"[>|][-+]?$")


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container; `words` is its command as a shell would read it, empty where the image's own runs."""

    line: int
    image: str
    words: str


def is_manifest(text: str) -> bool:
    """True if text is YAML that says which image a container runs."""
    names_one = re.search(r"^\s*(?:-\s+)?(?:image:\s*\S|command:)", text, re.MULTILINE)
    return bool(IS_MANIFEST.search(text)) and names_one is not None


def containers(text: str) -> Iterator[Container]:
    """Every container with an image or a command, in order; the image is empty where it is built beside the file."""
    lines = text.replace("\r\n", "\n").split("\n")
    fields: dict[str, tuple[int, str]] = {}
    column = -1
    for place, line in enumerate(lines):
        key = KEY.match(line)
        here = _column(line)
        if (
            fields
            and line.strip()
            and not line.lstrip().startswith("#")
            and (here < column or _starts_item(line, column))
        ):
            yield from _container(fields)
            fields = {}
        if key and (not fields or here == column):
            fields[key["key"]] = (place, _value(lines, place, here, key["value"] or ""))
            column = here
    yield from _container(fields)


def _container(fields: dict[str, tuple[int, str]]) -> Iterator[Container]:
    if fields:
        words = " ".join(fields[key][1] for key in ("entrypoint", "command", "args") if key in fields)
        line = min(place for place, _ in fields.values()) + 1
        yield Container(line=line, image=fields["image"][1] if "image" in fields else "", words=words)


def _column(line: str) -> int:
    """The column where the key of a line begins, behind the dash of a list."""
    return len(line) - len(line.lstrip(" -"))


def _starts_item(line: str, column: int) -> bool:
    """True if the line begins the next item of the list the container is in."""
    return line.lstrip().startswith("- ") and _column(line) == column


def _value(lines: list[str], place: int, column: int, written: str) -> str:
    """The value behind a key, as words of a shell."""
    written = re.sub(r"\s+#.*$", "", written).strip()
    if written.startswith("["):
        return _listed(written.strip("[] ").split(","))
    if written and not FOLDED.match(written):
        return written.strip("\"'") if written[:1] == written[-1:] else written
    block = []
    for line in lines[place + 1 :]:
        inside = len(line) - len(line.lstrip())
        is_entry = line.lstrip().startswith("- ") and inside >= column - 2
        if line.strip() and inside <= column and not is_entry:
            break
        block.append(line.strip())
    block = [line for line in block if line and not line.startswith("#")]
    if written:
        return " ".join(block) if written.startswith(">") else "\n".join(block)
    return _listed(_entries(block))


def _entries(block: list[str]) -> list[str]:
    """The entries of a list of lines; one that is folded or kept (`- |`) holds the lines behind it."""
    entries: list[str] = []
    for line in block:
        if line.startswith("- "):
            entries.append("" if FOLDED.match(line[2:].strip()) else line[2:])
        elif entries:
            entries[-1] += f"{line}\n"
    return entries


def _listed(entries: list[str]) -> str:
    """The entries of a list as words; `$VAR` and `$(VAR)` stay open to be filled."""
    words = [entry.strip().strip("\"'") for entry in entries if entry.strip()]
    return " ".join(word if "$" in word and " " not in word else shlex.quote(word) for word in words)
