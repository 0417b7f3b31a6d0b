"""A model whose answer depends only on its prompt, so that clients may ask in any order.

It calls `add` if that tool is offered, says "Two." once a tool has answered, fills the schema that holds an answer, and
says "Hello wörld" to everything else.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import Stack, gateway, loop_in_a_thread
from tests.gateway.triton import Event, Triton, serving

HELLO = ("Hel", "lo", " wörld")
OFFERED = re.compile(r'"name": "([a-zA-Z_-]*add)"')
"""Finds the offered tool's name, before which Semantic Kernel puts the name of its plug-in."""
TOOL_ANSWERED = "<|im_start|>tool"
RUNTIME = os.environ.get("ENGINEHOUSE_CLIENTS_RUNTIME", "")
"""The program of an engine over HTTP that serves the LLM in Triton's place: vllm or trtllm-serve."""
DSPY = "[[ ## answer ## ]]"
CLAUDE = "claude-sonnet-4-0"
"""An alias of the gateway, since LlamaIndex accepts only names of Anthropic's models."""
CONTEXT = 60_000
"""Context in tokens. The small tokenizer makes a token of every few letters, and frameworks write long instructions."""


class SpeakingTriton(Triton):
    """The tests' Triton with additional answers."""

    weights: Path

    def _events(self, request: Any) -> tuple[Event, ...]:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.weights / "tokenizer.json"))
        prompt = tokenizer.decode(request.tensors["prompt_token_ids"], skip_special_tokens=False)
        guide = request.tensors.get("guided_decoding_guide")
        pieces = reply(prompt, json.loads(guide[0]) if guide else None)
        return (*map(Event, pieces), Event("", finish="stop", tokens=9, cached=2))


def reply(prompt: str, schema: Any) -> tuple[str, ...]:
    """Returns the pieces of the answer."""
    if schema is not None:
        return (json.dumps(filled(schema, schema), ensure_ascii=False),)
    if TOOL_ANSWERED in prompt:
        return ("Tw", "o.")
    if tool := OFFERED.search(prompt):
        call = json.dumps({"name": tool[1], "arguments": {"a": 1}})
        return ("<think>\nhm\n", "</think>\n\n", f"<tool_call>\n{call}\n</tool_call>")
    if DSPY in prompt:
        return (f"{DSPY}\n", *HELLO, "\n\n[[ ## completed ## ]]")
    return HELLO


def filled(schema: Any, root: Any) -> Any:
    """Returns the simplest value that keeps the schema: 1 for numbers, the greeting for texts, every property."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return filled((root.get("$defs") or root.get("definitions"))[name], root)
    if "enum" in schema or "const" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], root)
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: filled(value, root) for name, value in schema.get("properties", {}).items()}
    if kind == "array":
        return [filled(schema["items"], root)]
    return {"integer": 1, "number": 1, "boolean": True, "null": None}.get(kind, "".join(HELLO))


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yields a gateway whose model answers with text that fits the request's schema."""
    from tests.gateway.asking import KEY, key_line, settings
    from tests.gateway.engine import Engine, engine_serving
    from tests.gateway.test_tools import HERMES, TOOLS_TEMPLATE
    from tests.gateway.weights import written
    from tests.ports import free_port

    folder = tmp_path_factory.mktemp("speaking")
    keys, weights, triton = folder / "keys.json", written(folder / "weights", TOOLS_TEMPLATE), SpeakingTriton()
    triton.weights = weights
    keys.write_text(json.dumps({"keys": [key_line(KEY, "acme")]}))
    with loop_in_a_thread() as run:
        servers = contextlib.AsyncExitStack()
        run(servers.enter_async_context(serving(triton)))
        try:
            chosen = settings([triton.address], weights, keys, listen={"ports": [free_port()]})
            chosen["models"]["llama"].update(HERMES | {"context_tokens": CONTEXT})
            engine = None
            if RUNTIME:
                engine = run(servers.enter_async_context(engine_serving(Engine(triton, RUNTIME))))
                chosen["servers"]["engine"] = {"http": engine.address, "runtime": RUNTIME}
                chosen["models"]["llama"]["servers"] = ["engine"]
            chosen["aliases"][CLAUDE] = {"model": "llama"}
            with gateway(chosen, folder) as url:
                yield Stack(url, KEY, triton, weights, run, folder / "gateway.log")
            assert engine is None or engine.bodies, "no client's question reached the engine"
        finally:
            run(servers.aclose())
