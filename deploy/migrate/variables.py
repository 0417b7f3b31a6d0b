"""Variables in a shell's text: their assignments, arrays, and the words with their values put in."""

import re
import shlex
from collections.abc import Mapping, Sequence

from deploy.linter.words import Word, pasted

ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
NAME = re.compile(r"\$\$?\{(\w+)(?::?-([^{}$]*))?\}|\$\$?(\w+)|\$\((\w+)\)")
ARRAY = re.compile(
    r"^[ \t]*(?:local |declare -a |readonly )?(\w+)(\+?)=\(((?:[^()$]|\$(?!\())*)\)[ \t]*$", re.MULTILINE
)
IF_SET = re.compile(r"\$\{(\w+):?\+(.*)\}", re.DOTALL)
WHOLE_ARRAY = re.compile(r"\"?\$\{(\w+)\[[@*]\]\}\"?")

MOST_VALUE, MOST_USES, MOST_FILLED = 2048, 256, 2**22
"""Characters of a value that is put in, variables of a word, and characters that values may add to a command or a
text: `A=$A$A` in 40 lines has a terabyte (2026-11-28). What is beyond stays as it was written."""


def with_arrays(text: str) -> str:
    """The text of a script with arrays put in where all their words are used: `"${ARGS[@]}"`."""
    parts: dict[str, list[str]] = {}
    for name, adds, body in ARRAY.findall(text):
        words = " ".join(line.partition(" #")[0] for line in body.splitlines() if not line.lstrip().startswith("#"))
        parts[name] = parts.get(name, []) if adds else []
        parts[name].append(words.strip())
    arrays, free = {name: " ".join(filter(None, lines)) for name, lines in parts.items()}, MOST_FILLED

    def put_in(match: re.Match[str]) -> str:
        """The words of an array, in the place where they are used."""
        nonlocal free
        value = arrays.get(match[1], match[0])
        free -= len(value)
        return value if free > 0 else match[0]

    bare = ARRAY.sub(lambda match: "\n" * match[0].count("\n"), text) if arrays else text
    return WHOLE_ARRAY.sub(put_in, bare)


def used(exported: Sequence[tuple[str, str]], command: Sequence[Word]) -> list[tuple[str, str]]:
    """The exported variables that the server's command puts in by their names."""
    names = {match[1] or match[3] or match[4] for part in command for match in NAME.finditer(part.raw)}
    return [pair for pair in exported if pair[0] in names]


def assignments(words: Sequence[Word]) -> list[tuple[str, str]] | None:
    """The variables of a command that only assigns; None for any other command."""
    rest = list(words)
    if rest and rest[0].text in ("export", "declare", "local", "readonly", "ENV"):
        rest = [part for part in rest[1:] if not part.text.startswith("-")]
    if not rest or not all(ASSIGNED.match(part.text) for part in rest):
        return None
    return [(part.text.partition("=")[0], part.text.partition("=")[2]) for part in rest]


def all_filled(words: Sequence[Word], known: Mapping[str, str]) -> list[Word]:
    """The words with their variables replaced; `${NAME:+words}` is nothing if the text assigns no NAME."""
    result, free = list[Word](), MOST_FILLED
    for part in words:
        match = IF_SET.fullmatch(part.raw)
        if match is None:
            result.append(filled(part, known) if free > 0 else part)
            free -= len(result[-1].text) - len(part.text)
        elif known.get(match[1]):
            result += [filled(inner, known) for line in pasted(match[2]) for inner in line.commands[0]]
    return result


def filled(part: Word, known: Mapping[str, str]) -> Word:
    """The word with its variables replaced by values that the text assigns, or by their defaults."""
    if not 0 < part.text.count("$") <= MOST_USES or part.raw.startswith("'"):
        return part

    def value_of(match: re.Match[str]) -> str:
        """The value that takes the place of a variable, unless it is too long."""
        value = known.get(match[1] or match[3] or match[4] or "", match[2] if match[2] is not None else match[0])
        return value if len(value) <= MOST_VALUE else match[0]

    text = NAME.sub(value_of, part.text)
    return part if text == part.text else Word(text if "$" in text else shlex.quote(text), text)
