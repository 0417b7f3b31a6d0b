"""Cuts pasted text into command lines, each with the release it is judged for.

A Dockerfile, a compose file or a Kubernetes manifest names the image that its commands run in; a terminal's text does
not, and is judged for the release that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from deploy.linter.dockerfile import RUNS, instructions, is_dockerfile
from deploy.linter.manifests import containers, is_manifest
from deploy.linter.release import Target, target_inside
from deploy.linter.words import Pasted, pasted


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A command line and what it is judged for; without a line, the image that later lines run in."""

    line: Pasted | None
    target: Target
    instruction: str = ""
    number: int = 0


def pieces_of(text: str, target: Target, *, named: bool) -> Iterator[Piece]:
    """The command lines of a Dockerfile, a manifest or a terminal, each for the release its image names."""
    if is_dockerfile(text):
        for step in instructions(text):
            own = _inside(step.image, target, named=named)
            if step.name == "FROM" and own.image:
                yield Piece(line=None, target=own, number=step.line, instruction="FROM")
            elif step.name in (*RUNS, "ENV"):
                command = f"ENV {step.text}" if step.name == "ENV" else step.text
                for line in pasted(command):
                    numbered = replace(line, line=step.line + line.line - 1)
                    yield Piece(line=numbered, target=own, instruction=step.name)
    elif is_manifest(text):
        for container in containers(text):
            own = _inside(container.image, target, named=named)
            if container.image:
                yield Piece(line=None, target=own, number=container.line, instruction="image")
            for line in pasted(container.words):
                yield Piece(line=replace(line, line=container.line), target=own)
    else:
        yield from (Piece(line=line, target=target) for line in pasted(text))


def _inside(image: str, target: Target, *, named: bool) -> Target:
    return replace(target, image=image) if named or not image else target_inside(image, (), target)
