"""`all_reduce_perf_mpi` of nccl-tests: all ranks add up a buffer of -b bytes through MPI, and rank 0 prints the time.

The lines that programs read are those of nccl-tests; a wrong sum ends every rank with status 1, as there.
"""

from __future__ import annotations

import time

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def main(words: list[str]) -> int:
    """The status of this rank."""
    import numpy
    from mpi4py import MPI  # the import starts MPI

    options = dict(zip(words[::2], words[1::2], strict=True))
    size, world = options["-b"], MPI.COMM_WORLD
    count, ranks = int(size[:-1]) * UNITS[size[-1]] // 4, world.Get_size()
    sent, total = numpy.full(count, world.Get_rank() + 1, dtype="float32"), numpy.empty(count, dtype="float32")
    began = time.monotonic()
    world.Allreduce(sent, total)
    seconds = time.monotonic() - began
    wrong = int((total != ranks * (ranks + 1) / 2).sum())
    if world.Get_rank() == 0:
        bandwidth = 4 * count / seconds / 1e9 * 2 * (ranks - 1) / ranks
        print("# rehearsal stand-in of nccl-tests: no GPU takes part")
        print(f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}")
        print(f"# Avg bus bandwidth    : {bandwidth:g}", flush=True)
    return 1 if wrong else 0
