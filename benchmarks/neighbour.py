"""Fills the GPU's memory like an LLM with its key/value cache, and leaves a little free.

As a program (`python -m benchmarks.neighbour cuda:0 1024`) it prints `filled <MiB>` and holds the memory until its
standard input is closed.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

MIB = 2**20


@contextmanager
def filling(device: str, leave_mib: int) -> Iterator[int]:
    """Yields MiB that a neighbour process holds during the block; 0 without a GPU."""
    if device == "cpu":
        yield 0
        return
    command = [sys.executable, "-m", "benchmarks.neighbour", device, str(leave_mib)]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None and process.stdin is not None
        word, size = process.stdout.readline().split()
        assert word == "filled"
        try:
            yield int(size)
        finally:
            process.stdin.close()
            process.wait(30)


def fill(device: str, leave_mib: int) -> list[torch.Tensor]:
    """Returns blocks of random bytes that take all free memory of the device except `leave_mib`."""
    blocks, size = [], 2048
    while size >= 64:
        free, _ = torch.cuda.mem_get_info(device)
        if free // MIB - leave_mib < size:
            size //= 2
            continue
        blocks.append(torch.randint(0, 255, (size * MIB,), dtype=torch.uint8, device=device))
    return blocks


if __name__ == "__main__":
    held = fill(sys.argv[1], int(sys.argv[2]))
    print("filled", sum(block.numel() for block in held) // MIB, flush=True)
    sys.stdin.read()
