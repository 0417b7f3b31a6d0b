"""Splits pasted text into command lines, each with the release for which it is judged.

A Dockerfile, a compose file or a Kubernetes manifest names the image of its commands; a terminal's text does not, and
is judged for the requested release. A file inside a here-document is split like any file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from deploy.linter.dockerfile import RUNS, instructions, is_dockerfile
from deploy.linter.manifests import Container, checks_of, containers, is_manifest
from deploy.linter.model_config import is_model_config
from deploy.linter.other_servers import is_another_server
from deploy.linter.release import Target, target_inside
from deploy.linter.words import HereDocument, Pasted, here_documents, pasted


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A command line with its target; without a command: an image, a container's settings or a config.pbtxt."""

    line: Pasted | None
    target: Target
    instruction: str = ""
    number: int = 0
    container: Container | None = None
    text: str = ""
    """A whole file, read by its own judge."""


def pieces_of(text: str, target: Target, *, named: bool) -> Iterator[Piece]:
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
            for number, words in () if is_another_server(container) else checks_of(container):
                yield from (Piece(line=replace(line, line=number), target=own) for line in pasted(words))
            yield Piece(line=None, target=own, number=container.line, container=container)
    else:
        yield from (Piece(line=line, target=target) for line in pasted(text))
        for document in here_documents(text):
            yield from _inside_document(document, target, named=named)


def _inside_document(document: HereDocument, target: Target, *, named: bool) -> Iterator[Piece]:
    """The pieces of a file or a script inside a here-document; empty for any other text."""
    body = document.body
    if is_model_config(body):
        yield Piece(line=None, target=target, number=document.line, text=body)
    elif document.is_script or is_dockerfile(body) or is_manifest(body):
        for piece in pieces_of(body, target, named=named):
            line = replace(piece.line, line=piece.line.line + document.line - 1) if piece.line else None
            number = piece.number + document.line - 1 if piece.number else 0
            yield replace(piece, line=line, number=number)


def _inside(image: str, target: Target, *, named: bool) -> Target:
    return replace(target, image=image) if named or not image else target_inside(image, (), target)
