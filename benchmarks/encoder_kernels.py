"""Measures the encoders' passes in this process, without Triton, text or transport, as the kernels' limit.

    PYTHONPATH=files python -m benchmarks.encoder_kernels                       both models, fp16, on cuda:0
    PYTHONPATH=files python -m benchmarks.encoder_kernels --products fp8        with 8-bit products

Random weights in the exact shapes, random token ids, two full passes in progress for each stream like the backend;
medians of five runs after a warm one, the bf16 matrix product of benchmarks/limit.py before them in the same call. Last
line: one JSON object.
"""

import argparse
import json
import re
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks import gpu, limit
from encoders import bert, families, float8, loading, nomic
from encoders.batching import cut
from encoders.choices import choose
from encoders.device import Runner
from encoders.packing import Ids
from encoders.weights import Weights

SHAPES = {
    "bge-reranker-large": bert.Shape(250002, 1024, 24, 16, 4096, 514, 1, 1e-5, 1, head="roberta"),
    "nomic-embed-text-v2-moe": nomic.Shape(250048, 768, 12, 12, 3072, 1, 1e-5, 10000.0, 8, 2, 2, 2048),
}
RUNS, SECONDS = 5, 0.4


def main() -> None:
    """Prints a line for each reading, then the JSON object."""
    options = parser().parse_args()
    result: dict[str, Any] = {"machine": gpu.machine(options.device), "tflops": limit.measured(options.device)}
    result |= {"dtype": options.dtype, "products": options.products, "budget": options.budget}
    result |= {"streams": options.streams, "models": {}}
    for name in SHAPES:
        runner, row = started(name, options)
        row |= {case: documents_per_second(runner, texts, options.budget) for case, texts in cases().items()}
        row["query of 24 tokens, p50 ms"] = latency_ms(runner)
        result["models"][name] = row
        print(name, json.dumps(row), flush=True)
        del runner
    print(json.dumps(result), flush=True)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.encoder_kernels", description=__doc__.split("\n")[0])
    made.add_argument("--device", default="cuda:0")
    made.add_argument("--dtype", default="fp16", choices=["fp16", "bf16"])
    made.add_argument("--products", default="", choices=["", "fp8"])
    made.add_argument("--budget", type=int, default=16384)
    made.add_argument("--streams", type=int, default=2)
    return made


def started(name: str, options: argparse.Namespace) -> tuple[Runner, dict[str, Any]]:
    """Returns the model's warm runner and the facts of its start."""
    shape, began = SHAPES[name], time.monotonic()
    family = bert.family_of(shape, 1) if isinstance(shape, bert.Shape) else nomic.family_of(shape, 1)
    kernels = choose(options.device, families.DTYPES[options.dtype], family.mixture)
    network = family.build(Weights(random_weights(family, kernels.dtype, options.device), options.device), kernels)
    row: dict[str, Any] = {"kernels": kernels.notes}
    if options.products:
        row["moved"] = float8.narrow(
            network.trunk, kernels, lambda: loading.calibration_states(network, kernels, family, 512)
        )
    finish = (
        (lambda states, batch: kernels.steps.mean(states, batch.starts)) if family.mixture else (lambda out, _: out)
    )
    runner = Runner(network, kernels, family, finish, options.streams)
    runner.warm_up(512, options.budget)
    return runner, row | {"start_seconds": round(time.monotonic() - began, 1), "held_mib": runner.held_mib()}


def random_weights(family: families.Family, dtype: torch.dtype, device: str) -> dict[str, torch.Tensor]:
    """Returns every tensor of the checkpoint, made on the device."""
    wide = re.compile(family.float32)
    generator, made = torch.Generator(device).manual_seed(1), {}
    for name, shape in family.shapes().items():
        values = torch.randn(shape, generator=generator, device=device) * 0.02
        is_scale = name.endswith("weight") and ("norm" in name.lower() or "emb_ln" in name)
        made[name] = (values + is_scale).to(torch.float32 if wide.search(name) else dtype)
    return made


def cases() -> dict[str, list[Ids]]:
    """Returns token sequences of each case."""
    rng = np.random.default_rng(1)
    spread = np.exp(rng.normal(np.log(123) - 0.32, 0.8, 2000)).astype(int)
    lengths = {"32": [32] * 2048, "128": [128] * 512, "512": [512] * 128}
    lengths["log-normal, mean about 123"] = spread[(spread >= 16) & (spread <= 512)][:700].tolist()
    return {case: [rng.integers(4, 250_000, n, dtype=np.int32) for n in tokens] for case, tokens in lengths.items()}


def documents_per_second(runner: Runner, texts: Sequence[Ids], budget: int) -> int:
    """Returns median documents a second over runs, longest texts first, with two passes per stream."""
    passes, rest = [], sorted(texts, key=len, reverse=True)
    while rest:
        count = cut([len(text) for text in rest], budget)
        passes.append(rest[:count])
        rest = rest[count:]
    _run(runner, passes)
    return round(statistics.median(_run(runner, passes) for _ in range(RUNS)))


def _run(runner: Runner, passes: list[list[Ids]]) -> float:
    began, done, running = time.perf_counter(), 0, []
    while time.perf_counter() - began < SECONDS:
        for texts in passes:
            running.append(runner.launch(texts, True))
            done += len(texts)
            if len(running) >= 2 * len(runner.lanes):
                running.pop(0).wait()
    for under_way in running:
        under_way.wait()
    return done / (time.perf_counter() - began)


def latency_ms(runner: Runner) -> float:
    """Returns median milliseconds of short queries, one after another."""
    query = [np.arange(4, 28, dtype=np.int32)]
    seconds = []
    for _ in range(300):
        began = time.perf_counter()
        runner(query)
        seconds.append(time.perf_counter() - began)
    return round(statistics.median(seconds) * 1000, 2)


if __name__ == "__main__":
    main()
