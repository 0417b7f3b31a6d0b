"""Data files of the foundation roles: a host in some state, and the commands that the role must run there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

from deploy.slices.host import Slice
from deploy.spec import DataDisk, Docker
from tests.roles.fake import Answer, Ran, run
from tests.roles.slices import a_slice


@dataclass(frozen=True)
class Case:
    """A data file: the host, its answers and their changes, and the commands that the role must then run.

    Keys: `os`, `slice` (changed fields), `seen` (lines that the role's fact prints), `then` ({part of a command: lines
    printed after it ran}), `commands`, `changed` (operations with changes), `told` (a refusal's first line). A line
    about a file may end in `@PATH`: the sha256 of that file of the repository.
    """

    path: Path
    content: dict[str, Any]

    @property
    def name(self) -> str:
        """The file's name without its suffix, for pytest's ids."""
        return self.path.stem

    def slice(self) -> Slice:
        """The host's slice: the usual one with the case's changed fields."""
        changes = json.loads(json.dumps(self.content.get("slice", {})))
        machine = changes.pop("machine", {})
        if "data_disk" in machine:
            machine["data_disk"] = DataDisk(**machine["data_disk"])
        if "mig" in changes:
            changes["mig"] = machine["mig"] = tuple(changes["mig"])
        if "docker" in changes:
            changes["docker"] = Docker(**changes["docker"])
        return a_slice(self.content["os"], machine=machine, driver=changes.pop("driver", None), **changes)

    def answers(self) -> dict[Any, Answer]:
        """A script for `run`: the role's fact answers `seen`, and after each command in `then` its lines."""
        latest = [_with_digests(self.content["seen"])]

        def advance(lines: list[str]) -> Callable[[str], str]:
            return lambda _: latest.__setitem__(0, _with_digests(lines)) or ""

        triggers = {piece: advance(lines) for piece, lines in self.content.get("then", {}).items()}
        return {FACT: lambda _: latest[0], **triggers, "boot_id": "boot-after"}


def _with_digests(lines: list[str]) -> list[str]:
    """The lines with every `@PATH` replaced by the digest of that file, so that data do not change with programs."""
    root = Path(__file__).parents[2]
    named = [line.rpartition("\t@") for line in lines]
    return [f"{head}\t{sha256((root / path).read_bytes()).hexdigest()}" if at else path for head, at, path in named]


FACT = re.compile(r"^(answer\(\) \{.*?\n\}\n)?(dpkg-query -W|sha256sum )", re.DOTALL)
"""The one fact of each foundation role begins with its question about packages, or files if it has none."""


def cases(folder: str | Path) -> list[Case]:
    """The data files (*.json) of one role's test folder, sorted by name."""
    played = [Case(path, json.loads(path.read_text())) for path in sorted(Path(folder).glob("*.json"))]
    assert played, f"{folder} holds no case"
    return played


def play(case: Case, apply: Callable[[Slice], object], **how: Any) -> Ran:
    """The outcome of a foundation role on the case's host, cached by its arguments."""
    key = (case.path, apply.__module__, *sorted(how.items()))
    if key not in _PLAYED:
        mine = case.slice()
        with mock.patch("time.sleep"):
            _PLAYED[key] = run(lambda: apply(mine), answers=case.answers(), **how)
    return _PLAYED[key]


_PLAYED: dict[object, Ran] = {}
