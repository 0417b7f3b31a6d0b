"""The GPU as nvidia-smi describes it, and the errors of one that is too small."""

import subprocess
import sys


def gpus():
    """Returns (name, MiB, SM) of every GPU here. Raises torch's error without one."""
    argv = ["nvidia-smi", "--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise RuntimeError("No CUDA GPUs are available") from None
    rows = [[cell.strip() for cell in line.split(",")] for line in output.splitlines() if line.strip()]
    return [(name, int(mib), sm.replace(".", "")) for name, mib, sm in rows]


def require_torch_memory(needed_mib):
    """Raises the error of a PyTorch allocation that does not fit."""
    for number, (_, mib, _) in enumerate(gpus()):
        if needed_mib > mib:
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {needed_mib / 1024:.2f} GiB. GPU {number} has a total "
                f"capacity of {mib / 1024:.2f} GiB of which {mib / 1024 - 0.6:.2f} GiB is free."
            )


def require_builder_memory(needed_mib):
    """Exits like TensorRT's builder if no tactic fits into the GPU's memory."""
    smallest = min(mib for _, mib, _ in gpus())
    if needed_mib <= smallest:
        return
    for line in (
        f"[TRT] [W] Requested amount of GPU memory ({needed_mib << 20} bytes) could not be allocated. There may not be "
        "enough free memory for allocation to succeed.",
        "[TRT] [E] [virtualMemoryBuffer.cpp::resizePhysical::154] Error Code 2: OutOfMemory "
        f"(Requested size was {needed_mib << 20} bytes.)",
        "[TRT] [E] IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any implementation)",
    ):
        print(line, file=sys.stderr, flush=True)
    raise SystemExit(1)


class OutOfMemoryError(RuntimeError):
    """An error that prints as torch.OutOfMemoryError."""


OutOfMemoryError.__module__ = "torch"
