"""aiperf asks a gateway before the tests' small Triton three times: as it is, again, and slowed. `make told-apart`.

Two results of the same server are not to be told apart, the slowed one is. The results may be kept: tests/golden/bench
holds those of 2026-11-23, by which `tests/unit/test_bench.py` judges the rule without aiperf.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from deploy.bench.compare import compared
from deploy.bench.load import Load
from deploy.edge.bench import bench_of
from tests.clients.conftest import gateway, loop_in_a_thread
from tests.clients.ports import free_port
from tests.gateway.asking import KEY, key_line, settings
from tests.gateway.triton import Triton, serving
from tests.gateway.weights import written
from tests.unit.given import EMBEDDER, LLAMA, RERANKER, main, plan

SLOWER_SECONDS = 0.1
LOAD = Load(clients=2, seconds=4.0, prompt=50, answer=5, piece=20, texts=4, passages=8)


@dataclass
class SlowTriton(Triton):
    """The small Triton, and `slower` seconds before each answer."""

    slower: float = 0.0

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        """The answer, later."""
        await asyncio.sleep(self.slower)
        return await super().ModelInfer(request, context)

    async def ModelStreamInfer(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        """The stream, later."""
        await asyncio.sleep(self.slower)
        async for event in super().ModelStreamInfer(requests, context):
            yield event


@click.command()
@click.option("--program", type=click.Path(path_type=Path), help="An aiperf that is there; else one in .cache/bench.")
@click.option("--mix", default="chat", help="Of chat, embed, rerank, rerank-tei, with commas between them.")
@click.option("--runs", default=6)
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for the three results.")
def told_apart(program: Path | None, mix: str, runs: int, keep: Path | None) -> None:
    """Ends with 1 where two equal servers differ, or a slowed one does not."""
    triton = SlowTriton()
    with tempfile.TemporaryDirectory() as name, loop_in_a_thread() as run:
        folder = Path(name)
        keys, weights = folder / "keys.json", written(folder / "weights")
        keys.write_text(json.dumps({"keys": [key_line(KEY, "acme")]}))
        context = serving(triton)
        run(context.__aenter__())
        try:
            told = settings([triton.address], weights, keys, listen={"ports": [free_port()]})
            with gateway(told, folder) as url:
                results = [
                    measured(url, weights, (mix, runs, program), triton, slower) for slower in (0, 0, SLOWER_SECONDS)
                ]
        finally:
            run(context.__aexit__(None, None, None))
    for place, result in enumerate(results if keep else []):
        (keep or Path()).mkdir(exist_ok=True)
        ((keep or Path()) / f"{('first', 'again', 'slowed')[place]}.json").write_text(
            json.dumps(result, indent=1) + "\n"
        )
    again, slowed = compared(results[0], results[1]), compared(results[0], results[2])
    for title, found in (("again", again), ("slowed", slowed)):
        worse = [
            f"{figure.case} {figure.name} {figure.change_percent:+.0f}%" for figure in found.figures if figure.is_worse
        ]
        click.echo(f"{title}: exit {found.exit_code}; worse: {'; '.join(worse) or 'nothing'}")
    sys.exit(0 if (again.exit_code, slowed.exit_code) == (0, 2) else 1)


def measured(url: str, weights: Path, how: tuple[str, int, Path | None], triton: SlowTriton, slower: float) -> Any:
    """A result of the gateway while its Triton is slower by so much; `how`: the mix, the runs, the program."""
    mix, runs, program = how
    triton.slower = slower
    mine = plan(**main(replace(RERANKER, name="bge"), replace(EMBEDDER, name="nomic"), replace(LLAMA, name="llama")))
    said = {"url": url, "key": KEY, "tokenizer": str(weights), "runs": runs, "program": program, "say": print}
    result = bench_of(mine, LOAD, mix.split(","), **said)
    return result | {"url": "", "machine": result["machine"] | {"note": "a gateway before the tests' small Triton"}}


if __name__ == "__main__":
    told_apart()
