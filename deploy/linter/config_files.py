"""Files that start commands in a form of their own, as scripts: units, supervisord, Terraform, Nomad, CI, PowerShell.

Forms are those of supervisord's, Nomad's and Terraform's pages and of public files; seen 2026-11-28. Every command
keeps its line. Ansible's tasks and compose files are read by `deploy.linter.manifests`.
"""

from __future__ import annotations

import re
import shlex

from deploy.linter.systemd import is_unit, unit_as_script

CONTINUED = re.compile(r"^([^`\n]*)[ \t](?:`|\^)[ \t]*$", re.MULTILINE)
"""A line that PowerShell or CMD continues."""
SECTION = re.compile(r"^\[(?:program|eventlistener|fcgi-program):", re.MULTILINE)
IMAGE = re.compile(r'^[ \t]*image[ \t]*=[ \t]*"([^"\n]+)"', re.MULTILINE)
STEP = re.compile(
    r"^([ \t]*)(?:- +)?(?:(?:run|script|before_script|shell|cmd|(?:ansible\.builtin\.)?(?:shell|command)):[ \t]*)?"
    r"(?:[|>][-+]?)?[ \t]*"
)
STEPS = re.compile(r"^[ \t]*(?:- +)?(?:run|runs-on|script|before_script|(?:ansible\.builtin\.)?shell):", re.MULTILINE)
TEXT = re.compile(r'"((?:\\.|[^"\\\n])*)"')
PAIR = re.compile(r'"?([A-Za-z_]\w*)"?[ \t]*=[ \t]*"((?:\\.|[^"\\\n])*)"')
GPUS = re.compile(r'gpus[ \t]*=[ \t]*"(?P<gpus>[^"\n]+)"|device "nvidia/gpu"(?:[^{}]*\{\s*count\s*=\s*(?P<count>\d+))?')
MOST_SIGNS = 20_000
"""Characters of a block that are read."""


def as_script(text: str) -> tuple[str, tuple[str, ...]]:
    """The commands of a file on their lines, and settings that are no command; a shell's text stays as it is."""
    text = CONTINUED.sub(r"\1 \\", text)
    if is_unit(text):
        return unit_as_script(text)
    if SECTION.search(text):
        return _of_supervisor(text), ()
    if IMAGE.search(text) and "{" in text:
        return _of_hcl(text), ()
    if STEPS.search(text):
        return "\n".join(STEP.sub(r"\1", line, count=1) for line in text.split("\n")), ()
    return text, ()


def _of_supervisor(text: str) -> str:
    """The command of each program of a supervisord file, preceded by its environment variables."""
    lines = text.split("\n")
    place, pairs = -1, ""
    for number, line in enumerate(lines):
        key, _, value = line.partition("=")
        lines[number] = ""
        if line.startswith("["):
            place, pairs = -1, ""
        elif key.strip() == "command":
            place = number
            lines[number] = f"{pairs}{value.strip()}"
        elif key.strip() == "environment":
            pairs = re.sub(r",\s*(?=[A-Za-z_]\w*=)", " ", value.strip()) + " "
            lines[place] = f"{pairs}{lines[place]}" if place >= 0 else lines[place]
    return "\n".join(lines)


def _of_hcl(text: str) -> str:
    """The `docker run` of each block with an image, on the line of the image."""
    lines = [""] * (text.count("\n") + 1)
    for match in IMAGE.finditer(text):
        block = _around(text, match.start())
        pairs = [f"-e {shlex.quote(f'{name}={value}')}" for name, value in _variables(block)]
        gpus = GPUS.search(block)
        options = [f"--gpus {gpus['gpus'] or gpus['count'] or 'all'}"] if gpus else []
        options += ["--ipc=host"] if re.search(r'ipc_mode\s*=\s*"host"', block) else []
        entry = _texts(block, "entrypoint")
        options += [f"--entrypoint {shlex.quote(entry[0])}"] if entry else []
        words = [*entry[1:], *_texts(block, "command"), *_texts(block, "args")]
        command = ["docker run", *options, *pairs, shlex.quote(match[1]), *map(shlex.quote, words)]
        lines[text.count("\n", 0, match.start(1))] = " ".join(command)
    return "\n".join(lines)


def _around(text: str, place: int) -> str:
    """The block around a place; a task's, if the place is in its `config`."""
    start, depth = place, 0
    while start > max(place - MOST_SIGNS, 0):
        start -= 1
        depth += {"}": 1, "{": -1}.get(text[start], 0)
        if depth < 0:
            head = text[text.rfind("\n", 0, start) + 1 : start].strip()
            if head != "config":
                break
            depth = 0
    depth, end = 0, start
    while end < min(len(text), start + MOST_SIGNS):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
        if depth == 0:
            break
    return text[start:end]


def _texts(block: str, name: str) -> list[str]:
    """The texts of an attribute: of its list, or its only one."""
    match = re.search(rf'^[ \t]*{name}[ \t]*=[ \t]*(\[[^\]]*\]|"(?:\\.|[^"\\\n])*")', block, re.MULTILINE)
    return TEXT.findall(match[1]) if match else []


def _variables(block: str) -> list[tuple[str, str]]:
    match = re.search(r"\benv(?:ironment)?[ \t]*=?[ \t]*([\[{])([^\]}]*)", block)
    if not match:
        return []
    if match[1] == "{":
        return PAIR.findall(match[2])
    return [(name, value) for name, _, value in (text.partition("=") for text in TEXT.findall(match[2]))]
