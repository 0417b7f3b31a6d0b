"""A gateway whose LLM calls tools and thinks aloud, for clients of the newer dialects."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import Stack, gateway, loop_in_a_thread

ADD = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
WRITTEN = '<think>\nhm\n</think>\n\nLet me add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yields a gateway whose model answers with a thought, a text and a tool call."""
    with stack_of(tmp_path_factory.mktemp("calling")) as stack:
        yield stack


@contextlib.contextmanager
def stack_of(folder: Path, **llm: Any) -> Iterator[Stack]:
    """Yields a gateway with its servers, set up in that folder; `llm` adds settings of the model."""
    from tests.gateway.asking import KEY, key_line, settings
    from tests.gateway.test_tools import HERMES, TOOLS_TEMPLATE
    from tests.gateway.triton import Triton, serving
    from tests.gateway.weights import written
    from tests.ports import free_port

    keys, weights, triton = folder / "keys.json", written(folder / "weights", TOOLS_TEMPLATE), Triton()
    keys.write_text(json.dumps({"keys": [key_line(KEY, "acme")]}))
    with loop_in_a_thread() as run:
        context = serving(triton)
        run(context.__aenter__())
        try:
            chosen = settings([triton.address], weights, keys, listen={"ports": [free_port()]})
            chosen["models"]["llama"].update(HERMES | llm)
            with gateway(chosen, folder) as url:
                yield Stack(url, KEY, triton, weights, run, folder / "gateway.log")
        finally:
            run(context.__aexit__(None, None, None))


def says(stack: Stack, *texts: str, finish: str = "stop") -> None:
    """Makes the model write these pieces."""
    from tests.gateway.triton import Event, Script

    stack.triton.script = Script((*(Event(text) for text in texts), Event("", finish=finish, tokens=9)))
