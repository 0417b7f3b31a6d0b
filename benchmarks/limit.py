"""Computes the physical limit of a case: this GPU's present matrix speed over one document's operations.

It runs as a separate program (`python -m benchmarks.limit cuda:0`), so that it leaves no memory on the GPU.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.cases import Workload

SIZE = {"cuda": 8192, "cpu": 512}
TIMED = 7
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def measured(device: str) -> dict[str, float]:
    """Returns TFLOP/s of a large square matrix product on random numbers by number format, from a separate process."""
    command = [sys.executable, "-m", "benchmarks.limit", device]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def tflops(device: str, dtype: torch.dtype) -> float:
    """Returns the median of some timed runs of several products each, after warming up."""
    size, products = SIZE[device.split(":")[0]], 20 if device != "cpu" else 2
    generator = torch.Generator(device).manual_seed(1)
    a, b = (torch.randn(size, size, generator=generator, device=device).to(dtype) for _ in range(2))
    readings = []
    for _ in range(TIMED + 2):
        _wait(device)
        began = time.perf_counter()
        for _ in range(products):
            a @ b
        _wait(device)
        readings.append(2 * size**3 * products / (time.perf_counter() - began) / 1e12)
    return statistics.median(readings[2:])


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)


def flop_per_document(workload: Workload, config: dict[str, object]) -> float:
    """Returns operations of the matrix products of one document, attention included.

    A score depends only on the first token, so its last layer needs keys and values of all tokens, and its other
    products for the first token only. By hand: bge-reranker-large at 128 tokens 76.2 GFLOP (with a whole last layer
    78.9), nomic-embed-text-v2-moe 29.6.
    """
    nomic = config["model_type"] == "nomic_bert"
    h = int(config["n_embd" if nomic else "hidden_size"])
    inner = int(config["n_inner" if nomic else "intermediate_size"])
    layers = int(config["n_layer" if nomic else "num_hidden_layers"])
    weights = layers * (4 * h * h + 2 * h * inner)
    if nomic:
        with_experts = layers // 2
        weights += with_experts * (2 * h * inner * (int(config["moe_top_k"]) - 1) + h * int(config["num_experts"]))
    attention = 4 * layers * h * workload.squares_per_document
    whole = 2 * weights * workload.tokens_per_document + attention
    if workload.case.kind == "embedder":  # the mean reads the states of all tokens
        return whole
    unread = workload.tokens_per_document - 1
    last = 2 * (2 * h * h + 2 * h * inner) * unread
    return whole - last - 4 * h * (workload.squares_per_document - workload.tokens_per_document)


if __name__ == "__main__":
    print(json.dumps({name: tflops(sys.argv[1], dtype) for name, dtype in DTYPES.items()}))
