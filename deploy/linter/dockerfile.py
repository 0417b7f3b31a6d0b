"""Reads a Dockerfile: its stages, the base image of each, and the commands of RUN, CMD and ENTRYPOINT.

A comment or a blank line inside a continued instruction does not end it in a Dockerfile. Commands are judged elsewhere.
"""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

FROM = re.compile(
    r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(?P<image>\S+)(?:[ \t]+AS[ \t]+(?P<name>\S+))?", re.IGNORECASE | re.MULTILINE
)
INSTRUCTION = re.compile(
    r"\s*(ADD|ARG|CMD|COPY|ENTRYPOINT|ENV|EXPOSE|FROM|HEALTHCHECK|LABEL|MAINTAINER|ONBUILD|RUN|SHELL|STOPSIGNAL|USER"
    r"|VOLUME|WORKDIR)\s+(.*)",
    re.IGNORECASE | re.DOTALL,
)
HERE = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
INSTALLS_TRTLLM = re.compile(r"\bpip3?\b.*\btensorrt[-_]llm\b", re.IGNORECASE)
ADDED = '"$@"'
"""Text that `docker run` adds after an ENTRYPOINT without a CMD."""
RUNS = ("RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK")


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """An instruction; `text` is its shell command or its other words, `image` the base of its stage."""

    line: int
    name: str
    text: str
    image: str
    stage: int = 0
    is_exec: bool = False
    """True if it is written as a list of words, which no shell reads."""


def is_dockerfile(text: str) -> bool:
    """True if the first line of content is a FROM, an ARG or a parser directive, and a FROM follows."""
    first = next((line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    return bool(FROM.search(text)) and re.match(r"(FROM|ARG)\s", first, re.IGNORECASE) is not None


def instructions(text: str) -> Iterator[Instruction]:
    """Every instruction in order, with the image of its stage; the words of CMD follow the words of ENTRYPOINT."""
    steps = list(_steps(text))
    for step in steps:
        later = [later_step for later_step in steps if later_step.stage == step.stage]
        entry = [later_step for later_step in later if later_step.name == "ENTRYPOINT" and later_step.is_exec]
        arguments = [later_step for later_step in later if later_step.name == "CMD" and later_step.is_exec]
        if step.name == "ENTRYPOINT" and step.is_exec:
            yield replace(step, text=f"{step.text} {arguments[-1].text if arguments else ADDED}")
        elif not (step.name == "CMD" and entry):
            yield step


def _steps(text: str) -> Iterator[Instruction]:
    """Every instruction as written; FROM has its variables of ARG filled in."""
    stage = 0
    defaults: dict[str, str] = {}
    stages: dict[str, str] = {}
    image = ""
    for line, name, body in _instructions(text):
        if name == "ARG" and not image:
            key, _, value = body.strip().partition("=")
            defaults[key] = value.strip("\"'")
        if name == "FROM":
            named = FROM.match(f"FROM {body}")
            written = _filled(named["image"], defaults) if named else ""
            image = stages.get(written, written)
            stages |= {named["name"]: image} if named and named["name"] else {}
            stage += 1
        if name == "RUN" and INSTALLS_TRTLLM.search(body):
            image = ""
        is_exec = body.lstrip().startswith("[")
        yield Instruction(line=line, name=name, text=_command(name, body), image=image, stage=stage, is_exec=is_exec)


def _filled(image: str, defaults: dict[str, str]) -> str:
    return VARIABLE.sub(lambda match: defaults.get(match[1] or match[3], "") or match[2] or match[0], image)


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """The line, the name and the text of each instruction; continued lines are joined."""
    lines = text.replace("\r\n", "\n").split("\n")
    place = 0
    while place < len(lines):
        start, parts = place, list[str]()
        while place < len(lines):
            line = lines[place]
            place += 1
            if line.lstrip().startswith("#") or (parts and not line.strip()):
                continue
            goes_on = line.rstrip().endswith("\\")
            start = start if parts else place - 1
            parts.append(line.rstrip()[:-1] if goes_on else line)
            if not goes_on:
                break
        match = INSTRUCTION.match(" ".join(parts))
        if not match:
            continue
        end = HERE.search(match[2]) if match[1].upper() in ("RUN", "COPY", "ADD") else None
        body = match[2]
        if end:
            inside = lines[place:]
            length = next((at for at, line in enumerate(inside) if line.strip() == end[1]), len(inside))
            is_script = match[1].upper() == "RUN" and body.lstrip().startswith("<<")
            body = "\n".join(inside[:length]) if is_script else body[: end.start()]
            place += length + 1
        yield start + 1, match[1].upper(), body


def _command(name: str, body: str) -> str:
    """The shell words of an instruction; exec form (`["tritonserver", "--id=x"]`) becomes a command line."""
    body = re.sub(r"^\s*(?:--\S+\s+)+", "", body) if name in RUNS else body
    body = re.sub(r"^\s*CMD\s+", "", body) if name == "HEALTHCHECK" else body
    if name in RUNS and body.lstrip().startswith("["):
        try:
            words = json.loads(body)
        except (ValueError, RecursionError):
            return body.strip()
        return shlex.join(map(str, words)) if isinstance(words, list) else body.strip()
    return body.strip()
