"""The stand-in of TensorRT-LLM gives whole answers; otherwise a load that compares texts would fail."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

RESULTS = Path(__file__).parents[3] / "rehearsal/llmapi/packages/tensorrt_llm/results.py"
PARAMS = SimpleNamespace(best_of=1, n=1, max_tokens=3, logprobs=None, stop_token_ids=None, skip_special_tokens=True)
TOKENIZER = SimpleNamespace(decode=lambda ids, skip_special_tokens: "".join("abc"[token] for token in ids))


def test_a_reader_that_is_behind_gets_every_token() -> None:
    spec = importlib.util.spec_from_file_location("results_of_the_stand_in", RESULTS)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    goes_on = threading.Event()

    def tokens() -> Iterator[int]:
        yield 0
        yield 1
        assert goes_on.wait(300)
        yield 2

    def sequences(stopped: Callable[[], bool]) -> list[Iterator[int]]:
        return [tokens()]

    async def ahead(result: Any, steps: int) -> None:
        while result._steps.qsize() < steps:
            await asyncio.sleep(0)

    async def read() -> list[str]:
        result: Any = module.RequestResult([7], sequences, PARAMS, True, TOKENIZER, "")
        await ahead(result, 2)
        texts = [(await anext(result)).outputs[0].text]
        goes_on.set()
        await ahead(result, 2)
        return texts + [output.outputs[0].text async for output in result]

    assert asyncio.run(asyncio.wait_for(read(), 20)) == ["a", "ab", "abc"]
