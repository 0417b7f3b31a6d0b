"""Renders a chat template in a separate process (`worker`), with little memory and time.

A template comes with the weights and is foreign code. Jinja's sandbox keeps it from Python's attributes, but not from
work: a filter can pad a text to gigabytes, and an empty loop can run for ever. So each template has a process without
rights (`confinement`), with at most `MOST_BYTES` of memory and `MOST_SECONDS` of CPU time a message. Long and short
messages have separate processes, so that short ones do not wait for long ones.

If `harmless` accepts a template, short messages are rendered in this process, because the round trip takes longer than
the work. The separate process judges that, before it executes any of the template.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from gateway.lanes import Lane
from gateway.templates import Template, TemplateError, TooManyTurns
from gateway.worker import REASON, Program, Refused, Work, Worker, serve

MOST_BYTES = 2**30
MOST_SECONDS = 2.0
SHORT_BYTES = 16_384
HERE_CHARACTERS = 8192
HERE_TURNS = 512
HERE_SECONDS = 0.02
"""Seconds of rendering in this process, after which a template always gets a separate process."""
TOO_MUCH = "the template's output for these messages is too large, or takes too long"


class Renderer:
    """A chat template. `names` are the variables that it reads and does not set."""

    def __init__(self, source: str, constants: Mapping[str, str], seconds: float = MOST_SECONDS) -> None:
        """Returns once the process is ready. `constants`: bos_token and similar; `seconds` of CPU time for a message.

        Raises: ValueError if the source is not a template, or its compilation exceeds the bounds.
        """
        self.source = source
        prepare = {"source": source, "constants": dict(constants)}
        program = Program("gateway.renderer", prepare, seconds, TOO_MUCH, most_bytes=MOST_BYTES)
        try:
            first = Worker(program)
        except Refused as error:
            raise ValueError(f"the chat template: {error}") from None
        prepared = json.loads(first.prepared)
        self.names = frozenset(prepared["names"])
        self._here = Template(source, constants, HERE_TURNS) if prepared["is_harmless"] else None
        self._short, self._long = Lane(program, first), Lane(program)

    async def render(self, variables: Mapping[str, Any]) -> str:
        """The text for these variables, which are values of JSON.

        Raises: TemplateError.
        """
        text = json.dumps(variables, ensure_ascii=False)
        if self._here is not None and len(text) <= HERE_CHARACTERS:
            with contextlib.suppress(TooManyTurns):
                return self._rendered_here(self._here, variables)
        message = text.encode()
        lane = self._short if len(message) <= SHORT_BYTES else self._long
        try:
            return bytes(await lane.answer(message)).decode()
        except Refused as error:
            raise TemplateError(str(error)) from None

    def _rendered_here(self, template: Template, variables: Mapping[str, Any]) -> str:
        began = time.thread_time()
        try:
            return template.render(variables)
        except TooManyTurns:
            raise
        except TemplateError as error:
            raise TemplateError(str(error)[:REASON] or TOO_MUCH) from None
        finally:
            if time.thread_time() - began > HERE_SECONDS:
                self._here = None


def load(source: Mapping[str, Any]) -> Callable[[], tuple[Work, bytes]]:
    """The process's work: compiles the template within the bounds, and renders it."""

    def prepare() -> tuple[Work, bytes]:
        template = Template(source["source"], source["constants"])
        prepared = {"names": sorted(template.names), "is_harmless": template.is_harmless}
        return lambda message: template.render(json.loads(message)).encode(), json.dumps(prepared).encode()

    return prepare


if __name__ == "__main__":
    serve(load)
