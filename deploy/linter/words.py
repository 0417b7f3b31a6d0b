"""Splits pasted text into commands and words as a shell would, and records line breaks that a shell would not join.

Words are judged elsewhere. Nothing is expanded: a word with a variable in it stays as typed and is not judged by its
value.
"""

import re
import shlex
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

PIECE = (
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\$\{[^}]{0,1000}\}|\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`|\\."""
    r"""|<[A-Za-z/][^<>|&;\n]*>|\{\{[^{}]*\}\}|[^\s'"\\|&;<>()]"""
)
TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<comment>\#[^\n]*)"
    r"|(?P<redirect>\d*(?:&?>{1,2}&?|<{2,3}|<(?![A-Za-z/][^<>|&;\n]*>))\s*"
    r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|[^\s|&;<>()'"])*)"""
    r"|(?P<operator>&&|\|\||[|&;()])"
    rf"|(?P<word>(?:{PIECE})+)|(?P<quote>['\"])|(?P<other>.)",
    re.DOTALL,
)
LITERAL = re.compile(r"""'[^']*'|\\.|(?P<quoted>"(?:\\.|[^"\\])*")""", re.DOTALL)
"""Text that the shell takes literally. A text in double quotes counts whole, so that a `'` inside opens no quotes."""
ESCAPED = re.compile(r"\\.", re.DOTALL)
EXPANDS = re.compile(r"\$[\w{(@*#?!$-]|`")
QUOTING = re.compile(r"[\s'\"\\]")
LONGEST_WORD = 2**16
OPTION_LINE = re.compile(r"\s*--?[A-Za-z]")
OPTION_NAME = re.compile(r"(?<![\w-])--?[A-Za-z][\w.-]{0,80}")
KEY_NAME = re.compile(r"^[ \t-]{0,80}([\w.-]{1,80}):|\bkey:\s{0,20}\"([^\"\n]{1,80})\"", re.MULTILINE)
MOST_OPTIONS, MOST_KEYS = 1_000, 5_000
"""Different names in one text; each unknown one is compared with all known ones. No command or file has so many."""
READS_A_SCRIPT = re.compile(r"(?:^|[\s/])(?:bash|sh|zsh|dash|ssh|sbatch|user_data|startup[_-]script)\b|\.sh\b")
HERE = re.compile(r"(?<!<)<<-?\s*(['\"]?)([A-Za-z_]\w*)\1(?!<)")
PROMPT = re.compile(
    r"\A\s*(?:\([\w.-]+\)\s*)?(?:[\w.-]+@[\w.-]+:\S*[#$]|\[[\w.-]+@[\w.-]+ [^\]\s]*\][#$]|\$|\+{1,4})\s+"
)
"""A terminal's text before a command: `$ `, `user@host:/path$ `, `[user@host dir]# `, and `+ ` of `set -x`."""


def too_many(text: str) -> str:
    """The number of different options or keys in a text with implausibly many; else empty."""
    options, keys = set(OPTION_NAME.findall(text)), set(KEY_NAME.findall(text))
    if len(options) > MOST_OPTIONS:
        return f"{len(options):,} different options"
    return f"{len(keys):,} different keys" if len(keys) > MOST_KEYS else ""


def varies(raw: str) -> bool:
    """True if a shell expands a part of the word."""
    if "$" not in raw and "`" not in raw:  # most words of a long text
        return False
    return bool(EXPANDS.search(LITERAL.sub(lambda match: ESCAPED.sub("", match["quoted"] or ""), raw)))


@dataclass(frozen=True)
class Word:
    """A shell word: `raw` as typed, `text` without its quotes."""

    raw: str
    text: str

    @property
    def varies(self) -> bool:
        return varies(self.raw) or "<" in self.raw or "{{" in self.raw or self.raw.startswith(("__", "…"))


@dataclass(frozen=True)
class Pasted:
    """A command line; `breaks` lists where the paste ends it too early, each as (kind, the line at fault)."""

    line: int
    commands: tuple[tuple[Word, ...], ...]
    breaks: tuple[tuple[str, str], ...] = ()
    operators: tuple[str, ...] = ()
    """Operators between two commands: `&&`, `|`, `;`."""


@dataclass(frozen=True, kw_only=True)
class HereDocument:
    """A text between `<<EOF` and `EOF`; `is_script` if a shell runs it, directly or from the file that it becomes."""

    line: int
    body: str
    is_script: bool
    head: str = ""
    """The line that begins it."""


@lru_cache(maxsize=4096)
def word(raw: str) -> Word:
    """The word that a shell makes of `raw`, with both forms."""
    if not QUOTING.search(raw):
        return Word(raw, raw)
    try:
        cut = shlex.split(raw) if len(raw) <= LONGEST_WORD else []  # shlex's time grows with the square of the length
    except ValueError:
        cut = []
    return Word(raw, cut[0] if len(cut) == 1 else raw)


def pasted(text: str) -> list[Pasted]:
    """Every command line of `text` with continuations joined; comments, blank lines and code fences are skipped."""
    lines = without_here_documents(text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    command_lines, position = [], 0
    last_quote = max((place for place, line in enumerate(lines) if _closes(line)), default=-1)
    while position < len(lines):
        if _says_nothing(lines[position]):
            position += 1
            continue
        joined, breaks, following = _joined(lines, position, last_quote)
        commands, operators, stray = _cut(joined)
        if stray:
            breaks.append(("open-quote", stray))
        if commands:
            command_lines.append(Pasted(position + 1, tuple(commands), tuple(breaks), operators))
        position = following
    return command_lines


def without_here_documents(text: str) -> str:
    """The text with empty bodies of `<<EOF`: a command's input is not a command. Line numbers do not change."""
    lines, ends = text.split("\n"), list[str]()
    last = {row.strip(): place for place, row in enumerate(lines)}
    for place, line in enumerate(lines):
        if ends:
            is_end = line.strip() == ends[0]
            ends = ends[1:] if is_end else ends
            lines[place] = ""
        elif "<<" in line and not line.lstrip().startswith("#"):
            ends = [match[2] for match in HERE.finditer(line) if last.get(match[2], -1) >= place]
    return "\n".join(lines)


def here_documents(text: str) -> Iterator[HereDocument]:
    """Every complete here-document, in order, with the line of its first word."""
    lines = text.replace("\r\n", "\n").split("\n")
    places: dict[str, list[int]] = {}
    for number, row in enumerate(lines):
        places.setdefault(row.strip(), []).append(number)
    place = 0
    while place < len(lines):
        line = lines[place]
        match = HERE.search(line) if "<<" in line and not line.lstrip().startswith("#") else None
        place += 1
        if not match:
            continue
        ends = places.get(match[2], [])
        if (following := bisect_left(ends, place)) < len(ends):
            length = ends[following] - place
            body = "\n".join(lines[place : place + length])
            is_script = body.lstrip().startswith("#!") or READS_A_SCRIPT.search(line[: match.start()]) is not None
            yield HereDocument(line=place + 1, body=body, is_script=is_script, head=line)
            place += length + 1


def _says_nothing(line: str) -> bool:
    return not line.strip(" \t\\") or line.lstrip().startswith(("#", "```"))


def _joined(lines: list[str], start: int, last_quote: int) -> tuple[str, list[tuple[str, str]], int]:
    """The logical line from `start` on, the breaks in it, and the number of the next line."""
    parts: list[str] = []
    breaks: list[tuple[str, str]] = []
    position, has_quotes = start, False
    while position < len(lines):
        line = PROMPT.sub("", lines[position], count=1) if position == start else lines[position]
        position += 1
        has_quotes = has_quotes or _closes(line)
        if has_quotes and _quote_is_open("".join([*parts, line])) and position <= last_quote:
            parts.append(line + "\n")
            continue
        goes_on = line.rstrip().endswith("\\")
        parts.append(line.rstrip()[:-1] + " " if goes_on else line)
        if goes_on and line != line.rstrip():
            breaks.append(("space-after-backslash", f"`{line.lstrip()}`"))
        if goes_on:
            after = _next_that_speaks(lines, position, breaks)
            if after is None:
                break
            position = after
        elif position < len(lines) and OPTION_LINE.match(lines[position]):
            breaks.append(("missing-backslash", line.strip()))
            parts.append(" ")
        else:
            break
    return "".join(parts), breaks, position


def _next_that_speaks(lines: list[str], position: int, breaks: list[tuple[str, str]]) -> int | None:
    """The line with which a continued line was meant to continue; comments and blank lines in between are breaks."""
    met: list[tuple[str, str]] = []
    while position < len(lines):
        line = lines[position].strip()
        if line.startswith("#"):
            met.append(("comment-in-continuation", line))
        elif not line:
            met.append(("blank-in-continuation", ""))
        else:
            if not met or OPTION_LINE.match(line) or line.startswith("\\") or met[0][0] == "comment-in-continuation":
                breaks += met
                return position
            return None
        position += 1
    return None


def _quote_is_open(text: str) -> bool:
    return any(kind == "quote" for kind, _ in _tokens(text))


def _closes(line: str) -> bool:
    return "'" in line or '"' in line


@lru_cache(maxsize=2)
def _tokens(text: str) -> tuple[tuple[str, str], ...]:
    """The kinds and texts of a line's tokens; a line is asked for an open quote first, and cut afterwards."""
    return tuple((match.lastgroup or "quote", match.group()) for match in TOKEN.finditer(text))


def _cut(line: str) -> tuple[list[tuple[Word, ...]], tuple[str, ...], str]:
    """The commands, the operators between them, and the text after a quote that is never closed."""
    commands: list[list[Word]] = [[]]
    operators: list[str] = []
    stray = ""
    for kind, raw in _tokens(line):
        if kind == "comment":
            break
        if kind == "operator":
            operators += [raw] if commands[-1] else []
            commands += [[]] if commands[-1] else []
        elif kind == "word":
            commands[-1].append(word(raw))
        elif kind == "quote":
            stray = stray or raw
    whole = [tuple(command) for command in commands if command]
    return whole, tuple(operators[: max(len(whole) - 1, 0)]), stray
