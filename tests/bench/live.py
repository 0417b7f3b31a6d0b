"""Asks a gateway and its Triton through aiperf three times: normal, repeated, and slowed (`make test-bench-compare`).

Two results of the same server must count as equal; the slowed result must count as worse, because its answers arrive
later over the line. The Triton is the tests' small one, or with `--real` Triton 2.51 with small models on this CPU. The
results may be kept: tests/golden/bench holds those of `--real` on 2026-11-23, by which `tests/unit/test_bench.py`
judges without aiperf.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from deploy.bench.compare import compared
from deploy.bench.load import Load
from deploy.io.bench import bench_of
from tests.clients.conftest import gateway, loop_in_a_thread
from tests.gateway.asking import KEY, key_line, settings
from tests.gateway.real import CONTEXT_TOKENS, standing
from tests.gateway.triton import Triton, serving
from tests.gateway.weights import written
from tests.ports import free_port
from tests.unit.samples import EMBEDDER, LLAMA, RERANKER, main, plan

SLOWER_SECONDS = 0.1
SMALL = "the tests' small Triton"
LOAD = Load(clients=2, seconds=4.0, prompt=50, answer=5, piece=20, texts=4, passages=8)


@dataclass
class Line:
    """A proxy to the server at `to` (host and port) that delays each answer by `slower` seconds."""

    to: tuple[str, int]
    slower: float = 0.0

    async def begun(self) -> str:
        """Starts to listen; returns the address."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return "{}:{}".format(*server.sockets[0].getsockname())

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection(*self.to)
        await asyncio.gather(self._passed(reader, there, False), self._passed(back, writer, True))

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                await asyncio.sleep(self.slower * late)
                writer.write(data)
                await writer.drain()
        writer.close()


Run = Callable[[Any], Any]
CapturedOutput = tuple[Line, Path, dict[str, Any]]
"""The connection to a Triton, the LLM's files, and the further settings of the gateway for the models."""


@contextlib.contextmanager
def small(run: Run, folder: Path) -> Iterator[CapturedOutput]:
    """Runs the tests' own small Triton."""
    triton, weights = Triton(), written(folder / "weights")
    context = serving(triton)
    run(context.__aenter__())
    try:
        yield Line(at(triton.address)), weights, {}
    finally:
        run(context.__aexit__(None, None, None))


@contextlib.contextmanager
def real(run: Run, folder: Path) -> Iterator[CapturedOutput]:
    """Runs Triton 2.51 with an encoder of each kind and the rehearsal's stand-in for the LLM image."""
    with standing(folder) as scene:
        models = {"llama": {"context_tokens": CONTEXT_TOKENS}, "nomic": {"dimensions": 64}}
        yield Line(at(scene.triton.grpc)), scene.weights, models


def at(address: str) -> tuple[str, int]:
    """Splits an address into host and port."""
    host, _, port = address.rpartition(":")
    return host, int(port)


@click.command()
@click.option("--program", type=click.Path(path_type=Path), help="An aiperf that is there; else one in .cache/bench.")
@click.option("--mix", default="chat", help="Of chat, embed, rerank, rerank-tei, with commas between them.")
@click.option("--runs", default=6)
@click.option("--real", "is_real", is_flag=True, help="Triton 2.51, with small models on this CPU.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for the three results.")
def told_apart(program: Path | None, mix: str, runs: int, is_real: bool, keep: Path | None) -> None:
    """Returns exit status 1 if two equal servers differ in their results, or a slowed server does not."""
    with tempfile.TemporaryDirectory() as name, loop_in_a_thread() as run:
        folder = Path(name)
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [key_line(KEY, "acme")]}))
        with (real if is_real else small)(run, folder) as (line, weights, models):
            gateway_settings = settings([run(line.begun())], weights, keys, listen={"ports": [free_port()]})
            for model, changes in models.items():
                gateway_settings["models"][model] |= changes
            note = f"a gateway before {'Triton 2.51 with small models on a CPU' if is_real else SMALL}"
            with gateway(gateway_settings, folder) as url:
                target = Target(url, weights, mix, runs, program, note)
                results = [measured(target, line, slower) for slower in (0, 0, SLOWER_SECONDS)]
    for place, result in enumerate(results if keep else []):
        (keep or Path()).mkdir(exist_ok=True)
        ((keep or Path()) / f"{('first', 'again', 'slowed')[place]}.json").write_text(
            json.dumps(result, indent=1) + "\n"
        )
    again, slowed = compared(results[0], results[1]), compared(results[0], results[2])
    for title, result in (("again", again), ("slowed", slowed)):
        worse = [
            f"{figure.case} {figure.name} {figure.change_percent:+.0f}%" for figure in result.figures if figure.is_worse
        ]
        click.echo(f"{title}: exit {result.exit_code}; worse: {'; '.join(worse) or 'nothing'}")
    sys.exit(0 if (again.exit_code, slowed.exit_code) == (0, 2) else 1)


@dataclass(frozen=True)
class Target:
    """The gateway, its LLM's files, the mix, the number of runs, aiperf, and the server behind the gateway."""

    url: str
    weights: Path
    mix: str
    runs: int
    program: Path | None
    note: str


def measured(target: Target, line: Line, slower: float) -> Any:
    """Returns a result of the gateway while its Triton answers this many seconds later."""
    line.slower = slower
    mine = plan(**main(replace(RERANKER, name="bge"), replace(EMBEDDER, name="nomic"), replace(LLAMA, name="llama")))
    settings_of_run = {"url": target.url, "key": KEY, "tokenizer": str(target.weights), "runs": target.runs}
    result = bench_of(mine, LOAD, target.mix.split(","), program=target.program, say=print, **settings_of_run)
    return result | {"url": "", "machine": result["machine"] | {"note": target.note}}


if __name__ == "__main__":
    told_apart()
