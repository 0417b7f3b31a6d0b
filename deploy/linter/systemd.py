"""Reads a unit of systemd as a script: its variables and the commands that it runs, each on its own line."""

from __future__ import annotations

import re

SERVICE = re.compile(r"^\[Service\][ \t]*$", re.MULTILINE)
SETTING = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>.*)", re.DOTALL)
COMMAND = re.compile(r"(Exec(?:Condition|StartPre|StartPost|Start|Reload|StopPost|Stop))")
PREFIX = re.compile(r"^[@\-:+!]+")
"""Signs before a command: `-` ignores its failure, `+` and `!` concern privileges."""


def is_unit(text: str) -> bool:
    return SERVICE.search(text) is not None and re.search(r"^ExecStart=", text, re.MULTILINE) is not None


def unit_as_script(text: str) -> tuple[str, tuple[str, ...]]:
    """The commands and variables of a unit on their lines, and the other settings; any other text unchanged."""
    if not is_unit(text):
        return text, ()
    lines, others = list[str](), list[str]()
    goes_on = False
    for line in text.replace("\r\n", "\n").split("\n"):
        setting = None if goes_on else SETTING.match(line)
        if goes_on:
            lines.append(line)
        elif setting and COMMAND.fullmatch(setting["key"]):
            lines.append(PREFIX.sub("", setting["value"].lstrip(), count=1))
        elif setting and setting["key"] == "Environment":
            lines.append(f"export {setting['value']}")
        else:
            lines.append("")
            others += [line.rstrip("\\ ")] if setting and setting["value"] else []
        goes_on = line.rstrip().endswith("\\") and bool(lines[-1])
    return "\n".join(lines), tuple(others)
