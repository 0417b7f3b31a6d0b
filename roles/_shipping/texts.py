"""Small text files that a role needs on the host (programs, units, settings), and the commands that write missing ones.

One fact asks about all files at once, so a finished host costs one round trip, whatever the number of files.
"""

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyinfra.api import FactBase
from pyinfra.api.command import StringCommand

from roles._pyinfra.steps import write
from roles._shipping.places import UNITS

HERE = Path(__file__).resolve().parents[2]
_FILES = (
    "n='\n'; s=$n$(stat -c '%n %a %U' @ 2>/dev/null); sha256sum @ 2>/dev/null | while read -r h f;"
    """ do t=${s#*"$n$f "}; printf '%s %s %s\\n' "$h" "${t%%"$n"*}" "$f"; done"""
)
"""Command with two processes for any number of files, instead of two for each."""
UNREAD = "daemon-reload"
"""In the answer of `InstalledTexts`: systemd has not reread one of these units since its file changed."""


@dataclass(frozen=True)
class Text:
    """The wanted content of a path. `mode` is four octal digits; the owner is always root."""

    path: str
    content: str
    mode: str = "0644"

    @property
    def wanted_fact(self) -> str:
        return f"{hashlib.sha256(self.content.encode()).hexdigest()} {int(self.mode, 8):o} root"


class InstalledTexts(FactBase[dict[str, str]]):
    """Each path's content, as `sha256 mode owner`; a path that is not a regular file is absent from the answer.

    For units the fact also shows whether systemd has read them: a run that is killed before its `daemon-reload` leaves
    new units on disk that systemd has not read.
    """

    def command(self, paths: tuple[str, ...]) -> str:
        listed = " ".join(shlex.quote(path) for path in paths)
        files = _FILES.replace("@", listed)
        units = " ".join(shlex.quote(name) for name in dict.fromkeys(map(loaded_as, filter(is_unit, paths))))
        if not units:
            return files
        is_unread = f"systemctl show -p NeedDaemonReload {units} 2>/dev/null | grep -q =yes"
        return f'{files}; if {is_unread}; then echo "due - - {UNREAD}"; fi'

    @staticmethod
    def default() -> dict[str, str]:
        return {}

    def process(self, output: list[str]) -> dict[str, str]:
        rows = (line.split(" ", 3) for line in output)
        return {row[3]: " ".join(row[:3]) for row in rows if len(row) == 4}


def is_unit(path: str) -> bool:
    return path.startswith(f"{UNITS}/")


def loaded_as(path: str) -> str:
    """The unit of a file, as systemd has it loaded; for a template, every instance."""
    name = path.removeprefix(f"{UNITS}/").split("/")[0].removesuffix(".d")
    return name.replace("@.", "@*.")


def shipped(source: str, path: str, mode: str = "0644") -> Text:
    return Text(path, _content(source), mode)


@cache
def _content(source: str) -> str:
    return (HERE / source).read_text()


def put(wanted: Iterable[Text], facts: Mapping[str, str]) -> Iterator[StringCommand]:
    """Commands that write the differing files, with one `daemon-reload` at the end if a unit differs or is unread."""
    changed = [text for text in wanted if facts.get(text.path) != text.wanted_fact]
    yield from (write(text.path, text.content, text.mode) for text in changed)
    if any(is_unit(text.path) for text in changed) or UNREAD in facts:
        yield StringCommand("systemctl daemon-reload")
