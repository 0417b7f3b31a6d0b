"""Turns large prompts into ids in a separate process (`worker`): marks, template and tokenizer, one by one.

The library's `encode` holds Python's lock all the time, and takes 200 times the text's memory (tests' tokenizer,
2026-11-25). The template is foreign code; it is compiled and rendered within the bounds.
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from gateway.prompts import Completer, Prompter
from gateway.renderer import Renderer
from gateway.templates import Template
from gateway.tokens import Tokens
from gateway.worker import Work, serve


class Source:
    """A chat template before it is compiled."""

    def __init__(self, source: str, constants: Mapping[str, str]) -> None:
        self.source, self.constants = source, constants
        self.names: frozenset[str] = frozenset()


def tokens_of(kind: str, folder: Path) -> Tokens:
    """The tokenizer of a folder, as the class of this name reads it; a template is not compiled.

    Raises: OSError, ValueError.
    """
    if kind == "HarmonyPrompter":
        from gateway.harmony import HarmonyPrompter

        return HarmonyPrompter(folder)
    if kind == "Completer":
        return Completer(folder)
    return Prompter(folder, cast(Callable[..., Renderer], Source))


def load(weights: Mapping[str, Any]) -> Callable[[], tuple[Work, bytes]]:
    """Prepares the process, and returns the function that makes ids of messages and of texts."""
    tokens = tokens_of(weights["kind"], Path(weights["folder"]))

    def prepare() -> tuple[Work, bytes]:
        if isinstance(tokens, Prompter):
            tokens.template = cast(Renderer, Template(tokens.template.source, tokens.constants))
        return answer, b""

    def answer(message: bytes) -> bytes:
        most, text, conversation = marshal.loads(message)
        if conversation is None:
            ids = tokens.raw(text, most)
        else:
            messages, variables, tools = conversation
            ids = tokens.ids_here(messages, variables, tools, most)
        return array("i", ids).tobytes()

    return prepare


if __name__ == "__main__":
    serve(load)
