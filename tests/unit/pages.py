"""The project's pages in parts: fenced blocks with their requirements, commands, links, prose."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDS = re.compile(r"<!-- needs: (.+) -->")
FENCE = re.compile(r"^```(\w*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """Number of its first inner line, counted from 1."""
    language: str
    needs: str
    """The need that the mark above the block names; empty without a mark."""
    text: str

    @property
    def where(self) -> str:
        """Page and line, as editors take them."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every page that git tracks, and every new page that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / name for name in sorted(set(listed.stdout.splitlines())) if (ROOT / name).exists()]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    needs, begun, language, inside = "", 0, "", list[str]()
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        fence = FENCE.match(line.strip())
        if begun and line.strip() == "```":
            yield Block(page, begun, language, needs, "\n".join(inside))
            needs, begun, inside = "", 0, []
        elif begun:
            inside.append(line)
        elif fence:
            begun, language = number + 1, fence.group(1)
        elif mark := NEEDS.fullmatch(line.strip()):
            needs = mark.group(1)
        elif line.strip():
            needs = ""


def commands(text: str) -> list[list[str]]:
    """The words of each command of a shell block: continued lines joined, comments dropped, `&&` split."""
    lines = text.replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [part for line in words for part in _split(line)]


def _split(words: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in [*words, "&&"]:
        if word != "&&":
            part.append(word)
        elif part:
            yield part
            part = []


def outside_of_blocks(page: Path) -> str:
    """The page without its fenced blocks and comments."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.S | re.M)
    return re.sub(r"<!--.*?-->", "", text, flags=re.S)


def code_spans(page: Path) -> list[str]:
    """Texts between single backticks, outside of fenced blocks."""
    return re.findall(r"`([^`\n]+)`", outside_of_blocks(page))


def links(page: Path) -> list[str]:
    """Targets of links and images that point into the repository."""
    targets = re.findall(r"\]\(([^)\s]+)\)", outside_of_blocks(page))
    return [target for target in targets if "://" not in target]


def anchors(page: Path) -> set[str]:
    """Anchors that GitHub derives from the headings of a page, without `#`."""
    headings = re.findall(r"^#+ (.+)$", outside_of_blocks(page), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def sentences(page: Path) -> list[str]:
    """Sentences of running text and lists: no tables, no headings, no code."""
    text = re.sub(r"`[^`\n]+`", "CODE", outside_of_blocks(page))
    lines = [line.strip() for line in text.splitlines()]
    kept = ["" if line.startswith(("|", "#")) else line for line in lines]
    paragraphs = re.split(r"\n\n+|\n(?=- |\d+\. )", "\n".join(kept))
    flat = [re.sub(r"^(- |\d+\. )", "", " ".join(paragraph.split())) for paragraph in paragraphs]
    return [sentence for paragraph in flat for sentence in re.split(r"(?<=[.;:?!])\s+", paragraph) if sentence]
