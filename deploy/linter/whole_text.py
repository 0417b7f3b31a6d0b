"""Findings about a text as a whole: nothing in it is judged, it has too many names, or it has typographic signs."""

import re

from deploy.linter.findings import Judged, masked
from deploy.linter.other_servers import NOT_JUDGED, PROGRAMS
from deploy.linter.release import Target
from deploy.linter.report import Checked
from deploy.linter.words import MOST_KEYS, MOST_OPTIONS

STARTED = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, PROGRAMS))})(?![\w./=-])")


def typographic_signs(text: str, typed: str) -> tuple[str, Judged]:
    """The first line with a quote or a dash that a shell takes for a letter, and the finding about it."""
    pairs = enumerate(zip(text.split("\n"), typed.split("\n"), strict=True), 1)
    number, line = next((number, line) for number, (line, right) in pairs if line != right)
    judged = Judged(right=typed.strip().split("\n"))
    judged.add(
        "typographic-sign",
        "a word processor replaced quotes or dashes: a shell takes its signs for letters of a word",
        seen=line.strip()[:80],
        wanted="plain quotes, and `--` before the name of an option",
        attempt="the text below, with plain signs in every line",
    )
    return f"line {number}", judged


def _why_nothing(text: str, programs: list[str]) -> str:
    if _is_path(text):
        return f"{text} is neither an existing file nor a known program"
    if title := next((PROGRAMS[name] for name in (*programs, *STARTED.findall(text)) if name in PROGRAMS), ""):
        return f"{title} is another server: its options are not judged here, enginehouse migrate reads them"
    if known := next(((title, advice) for title, words, advice in NOT_JUDGED if words.search(text)), None):
        return f"{known[0]} is not judged here: {known[1]}"
    return f"enginehouse check has no rules for {programs[0]}" if programs else "there is no command in this text"


def _is_path(text: str) -> bool:
    return len(text.split()) == 1 and ("/" in text or "." in text)


def crowded(crowd: str, target: Target) -> Checked:
    """The finding about a text with so many names that it was not read."""
    judged = Judged()
    judged.add(
        "unknown-file",
        "the text has more different names than a command or a file of containers has, and was not read",
        seen=crowd,
        wanted=f"at most {MOST_OPTIONS:,} different options and {MOST_KEYS:,} keys",
        attempt="enginehouse check FILE with one command or one server's file",
    )
    return Checked(where="the text", target=target, findings=tuple(judged.findings))


def nothing_known(text: str, programs: list[str], target: Target, known: tuple[str, ...]) -> Checked:
    """The finding about a text without a command that is judged."""
    judged = Judged()
    first = next((line.strip() for line in text.split("\n") if line.strip()), "")
    judged.add(
        "unknown-program",
        _why_nothing(text.strip(), programs),
        seen=programs[0] if programs else masked(first[:80]) or "(nothing)",
        wanted=f"one of: {', '.join(known)}",
        attempt="enginehouse check 'trtllm-build --checkpoint_dir …'",
        is_wrong=not programs or _is_path(text.strip()),
    )
    return Checked(where="the text", target=target, findings=tuple(judged.findings))
