"""Removes from a text what copying added to it: colours, prompts, line numbers, prose around code, typographic signs.

Lines keep their numbers, because findings name them.
"""

import re
import shlex
from collections.abc import Iterator

COLOUR = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()][A-Z0-9])")
"""A terminal's sequence for a colour, a title or the cursor."""
INVISIBLE = re.compile("[\u00a0\u2007\u202f\u200b\u2060\ufeff]")
FENCE = re.compile(r"^[ \t]*(?:>[ \t]?)?(`{3,}|~{3,})[ \t]*([\w+-]*)[^`\n]*$")
WINDOWS = re.compile(r"^(?:PS [A-Za-z]:[^>\n]*|[A-Za-z]:\\[^<>|\"\n]*)>[ \t]?")
"""The prompt of PowerShell or CMD, with the directory."""
GOES_ON = re.compile(r"^>{1,2} +(?=\S)")
"""The prompt of a shell before the next line of one command."""
NUMBERED = re.compile(r"^[ \t]*(\d{1,4})(?:[.:|│][ \t]?|[ \t])")
ASSIGNED = re.compile(
    r"^[ \t]*(?:\$(?:env:)?(?P<power>\w+)[ \t]*=[ \t]*(?P<quote>['\"]?)(?P<of_power>[^'\"\n|;()@]*?)(?P=quote)"
    r"|set -[gxU]{1,3} (?P<fish>\w+) (?P<of_fish>\S+)|set \"?(?P<batch>\w+)=(?P<of_batch>[^\"\n]*?)\"?)[ \t]*\r?$",
    re.MULTILINE | re.IGNORECASE,
)
"""A variable as PowerShell, fish or CMD assigns it."""
SIGN = re.compile(
    r"'[^'\n]*'|\"(?:\\.|[^\"\\\n])*\"|\\.|#(?<!\S#)[^\n]*"
    r"|[“”„‟](?P<double>[^“”„‟\n]*)[“”‟]|[‘‚‛](?P<single>[^‘’\n]*)[’‛]"
    r"|(?P<dash>[‐-―−](?<!\S.)[‐-―−]?)(?=[A-Za-z])(?P<letter>[A-Za-z](?![\w-]))?"
)
"""A quote or a dash of a word processor, where a shell wants its own; comments and texts in plain quotes stay."""


def plain(text: str) -> str:
    """The text without colours, prompts of Windows, line numbers, and prose around code blocks."""
    if not text.isascii():
        text = INVISIBLE.sub(lambda match: " " if match[0].isspace() else "", text)
    if "\x1b" in text:
        text = COLOUR.sub("", text)
    lines = text.split("\n")
    lines = _without_numbers(_code_of(lines) if "```" in text or "~~~" in text else lines)
    text = "\n".join(_without_prompts(lines) if ">" in text else lines)
    return _assigned_as_sh(text) if "$" in text or "set " in text or "SET " in text else text


def _assigned_as_sh(text: str) -> str:
    """The text with assignments of PowerShell, fish and CMD as those of sh, and `%NAME%` as `${NAME}`."""
    of_batch = {match["batch"] for match in ASSIGNED.finditer(text) if match["batch"]}

    def put(match: re.Match[str]) -> str:
        """The assignment as sh writes it."""
        name, value = match["power"] or match["fish"] or match["batch"], match["of_power"] or match["of_fish"]
        return f"{name}={shlex.quote(value or match['of_batch'] or '')}"

    text = ASSIGNED.sub(put, text)
    return re.sub(r"%(\w+)%", lambda match: f"${{{match[1]}}}" if match[1] in of_batch else match[0], text)


def typed_as(text: str) -> str:
    """The text with a shell's quotes and dashes in the place of typographic ones."""
    return text if text.isascii() else SIGN.sub(_typed, text)


def _typed(match: re.Match[str]) -> str:
    if match["dash"]:
        return ("-" if match["letter"] else "--") + (match["letter"] or "")
    if match["double"] is not None:
        return f'"{match["double"]}"'
    return match[0] if match["single"] is None else f"'{match['single']}'"


def _code_of(lines: list[str]) -> list[str]:
    """The lines of the code blocks of a page, the others empty; a text with an open block stays as it is."""
    fences = [place for place, line in enumerate(lines) if FENCE.match(line)]
    if not fences or len(fences) % 2 or lines[0].startswith("#!") or any("<<" in line for line in lines[: fences[0]]):
        return lines
    inside = {place for start, end in zip(fences[::2], fences[1::2], strict=True) for place in range(start + 1, end)}
    return [line if place in inside else "" for place, line in enumerate(lines)]


def _without_numbers(lines: list[str]) -> list[str]:
    """The lines without the numbers of an editor, if every line has the next number."""
    first = NUMBERED.match(lines[0] or (lines[1] if len(lines) > 1 else ""))
    if not first:
        return lines
    matches = [NUMBERED.match(line) for line in lines if line.strip()]
    numbers = [int(match[1]) for match in matches if match]
    if len(numbers) < max(2, len(matches)) or numbers != [*range(numbers[0], numbers[0] + len(numbers))]:
        return lines
    return [NUMBERED.sub("", line, count=1) for line in lines]


def _without_prompts(lines: list[str]) -> Iterator[str]:
    goes_on = False
    for line in lines:
        bare = GOES_ON.sub("", line) if goes_on else WINDOWS.sub("", line, count=1)
        goes_on = bare.rstrip().endswith(("\\", "`", "^"))
        yield bare
