"""The list of a bundle: each file with path, digest, size and source; the text that is signed.

Hosts request these paths: `apt/OS/REPOSITORY/…`, `images/IMAGE/BLOB`, `weights/OWNER/NAME/COMMIT/FILE`. Keys of
repositories are `keys/…`; files for the control machine are `control/…`. The bytes of each file are stored as an object
named by their digest, so that equal files are stored once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from deploy.refusals import Refusal

FORMAT = 1
ARCHITECTURE = "amd64"
LIST, SIGNATURE = "bundle.json", "bundle.json.sig"
UNTOUCHED = "nothing of the bundle was used; no host was changed"
SHA256 = re.compile("[0-9a-f]{64}")
FOLDERS = ("apt", "images", "weights", "keys", "control")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A file of the bundle."""

    path: str
    sha256: str
    size: int
    source: str
    """The origin in words for a person."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The list of a bundle."""

    parts: tuple[Part, ...]
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By OS: the requested packages (`name=version` if the plan has a version) and everything they depend on."""
    architecture: str = ARCHITECTURE
    made: str = ""
    base: str = ""
    """sha256 of an earlier bundle's list, whose objects this directory leaves out; empty for a whole bundle."""

    @cached_property
    def by_path(self) -> dict[str, Part]:
        return {part.path: part for part in self.parts}

    @cached_property
    def objects(self) -> dict[str, int]:
        return {part.sha256: part.size for part in self.parts}

    @property
    def size(self) -> int:
        return sum(self.objects.values())

    def below(self, folder: str) -> list[Part]:
        return sorted((part for part in self.parts if part.path.startswith(f"{folder}/")), key=lambda part: part.path)

    def size_of(self, folder: str) -> int:
        return sum({part.sha256: part.size for part in self.below(folder)}.values())

    def kernels(self, os: str) -> list[str]:
        """The kernels of an OS for which the bundle has headers or modules, named as `uname -r` prints them."""
        names = (PurePosixPath(part.path).name.partition("_")[0] for part in self.below(f"apt/{os}"))
        matches = (re.fullmatch(r"linux-headers-(\d\S*)", name) for name in names)
        return sorted({match[1] for match in matches if match})

    def to_text(self) -> str:
        """The text that is signed."""
        content = {"format": FORMAT, **{name: value for name, value in asdict(self).items() if name != "parts"}}
        content["parts"] = [asdict(part) for part in sorted(self.parts, key=lambda part: part.path)]
        return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def of_text(cls, text: str) -> Contents:
        """The contents that a text lists. Raises: a Refusal for a text that is not a list of this format."""
        try:
            content: dict[str, Any] = json.loads(text)
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            parts = tuple(Part(**part) for part in content.pop("parts"))
            packages = {str(os): tuple(map(str, names)) for os, names in content.pop("packages").items()}
            contents = cls(parts=parts, packages=packages, **content)
            confirm_paths(contents.parts)
            if not all(isinstance(word, str) for word in (contents.architecture, contents.made, contents.base)):
                raise ValueError("a word that is no text")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise Refusal(
                f"{LIST} is not the list of a bundle, or has a form that this version does not read",
                facts={"seen": str(problem)[:200], "wanted": f"format {FORMAT}"},
                attempt="enginehouse bundle INVENTORY DIRECTORY on a connected machine, with this version",
                state=UNTOUCHED,
                kind="bundle-format",
            ) from None
        return contents


def confirm_paths(parts: Sequence[Part]) -> None:
    """Confirms that no part's path leads out of the bundle, and that no path occurs twice or is also a folder."""
    for part in parts:
        pieces = part.path.split("/")
        is_inside = pieces[0] in FOLDERS and not {"", ".", ".."} & set(pieces) and part.path.isprintable()
        if not is_inside or not SHA256.fullmatch(part.sha256) or type(part.size) is not int or part.size < 0:
            raise ValueError(f"{part.path!r} is no part")
    paths = sorted((*part.path.split("/"), "") for part in parts)
    for path, following in pairwise(paths):
        if following[: len(path) - 1] == path[:-1]:
            raise ValueError(f"{'/'.join(path[:-1])!r} is a file twice, or a file and a folder")
