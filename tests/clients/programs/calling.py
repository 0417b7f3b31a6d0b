"""Shared by the programs: the gateway's address and key, the tool, and a JSON line for each call's answer."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any

URL, KEY = os.environ["ENGINEHOUSE_URL"], os.environ["ENGINEHOUSE_KEY"]
V1 = f"{URL}/v1"
HELLO: Any = [{"role": "user", "content": "hello"}]
PARAMETERS: Any = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
TEXTS = ["the cat", "a mat"]
QUERY, DOCUMENTS = "cat mat", ["the dog", "the cat sat on the mat"]

KINDS = ("chat", "stream", "tool", "schema", "responses", "completion", "vectors", "best", "count")
"""Last words of the names of calls, which say the kind of request and so the form of its answer."""

added: list[int] = []


def add(a: int) -> str:
    """Adds."""
    added.append(a)
    return "2"


def run(**calls: Callable[[], Any]) -> None:
    """Runs the calls that the command line names, or all calls, and prints each answer."""
    for name in sys.argv[1:] or calls:
        added.clear()
        try:
            answer = calls[name]()
            line = {"call": name, "answer": asyncio.run(answer) if inspect.isawaitable(answer) else answer}
        except Exception as error:
            line = {"call": name, "error": f"{type(error).__name__}: {error}"[:2000]}
        print("\n" + json.dumps(line), flush=True)
