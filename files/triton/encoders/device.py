"""Where a network runs: the device asked for, its memory cap, packed passes on it, and the first warm ones."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from .choices import Kernels
from .errors import CheckpointError
from .families import Family
from .graphs import Graphs, rooms, smallest
from .packing import Form, Ids, Packed, form, pack
from .settings import Settings

MIB = 2**20
ROUND = 64  # tokens of a pass on CUDA are a multiple: fewer shapes for cuBLAS to choose kernels for


def claim(settings: Settings) -> None:
    """The device exists and, with memory_mib, this process's allocations on it are capped; call before loading."""
    if settings.device == "cpu":
        return
    index, found = int(settings.device.removeprefix("cuda:")), torch.cuda.device_count()
    if index >= found:
        raise CheckpointError(f"config.pbtxt: device is {settings.device}; this process sees {found} CUDA devices")
    torch.cuda.set_device(index)
    if settings.memory_mib:
        total = torch.cuda.get_device_properties(index).total_memory / MIB
        if settings.memory_mib > total:
            raise CheckpointError(
                f"config.pbtxt: memory_mib is {settings.memory_mib}; {settings.device} has {total:.0f}"
            )
        torch.cuda.set_per_process_memory_fraction(settings.memory_mib / total, index)


class Runner:
    """A network on its device as a function of token sequences; `finish` turns its output into a row per sequence."""

    def __init__(
        self,
        network: Callable[[Packed], Tensor],
        kernels: Kernels,
        family: Family,
        finish: Callable[[Tensor, Packed], Tensor] = lambda out, _: out,
    ) -> None:
        self._network, self._kernels, self._family, self._finish = network, kernels, family, finish
        self._on_cuda = kernels.device != "cpu"
        self.graphs = Graphs(self._compute, kernels.device)
        self.is_well = True
        self.seconds = 0.0
        """Time the device has spent in passes."""

    @torch.inference_mode()
    def launch(self, sequences: Sequence[Ids]) -> "Running":
        """A pass over `sequences`, under way."""
        room = smallest(self.graphs.offered, sequences)
        try:
            if room is not None:
                return Running(self, len(sequences), lambda: self.graphs.run(room, self._row(sequences, room)))
            room = form(sequences, ROUND if self._on_cuda else 1)
            return Running(self, len(sequences), lambda: self._eager(sequences, room))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            raise
        except Exception:
            self.is_well = self._answers()
            raise

    def __call__(self, sequences: Sequence[Ids]) -> np.ndarray:
        return self.launch(sequences).wait()

    def _eager(self, sequences: Sequence[Ids], room: Form) -> Tensor:
        row = self._row(sequences, room).to(self._kernels.device, non_blocking=True)
        return self._compute(Packed.over(row, room))

    def _compute(self, batch: Packed) -> Tensor:
        return self._finish(self._network(batch), batch).float()

    def _row(self, sequences: Sequence[Ids], room: Form) -> Tensor:
        family = self._family
        row = torch.from_numpy(pack(sequences, room, family.padding_id, family.counted_from, family.uncounted))
        return row.pin_memory() if self._on_cuda else row

    @torch.inference_mode()
    def warm_up(self, tokens: int, budget: int) -> int:
        """The budget of tokens one pass had memory for: `budget`, or halved until it fitted; small graphs captured.

        On CUDA the widest pass makes the allocator hold its workspace from now on, so memory taken later by other
        processes cannot starve this one. On the CPU nothing is held, and one sequence is enough.
        """
        if not self._on_cuda:
            self._fits(tokens, tokens)
            return budget
        while not self._fits(tokens, max(budget, tokens)):
            if budget <= tokens:
                raise CheckpointError(
                    f"{self._kernels.device}: no memory for one sequence of {tokens} tokens; raise memory_mib"
                )
            budget = max(tokens, budget // 2)
        if self._kernels.silent:
            self._capture(tokens, budget)
        return budget

    def _capture(self, tokens: int, budget: int) -> None:
        torch.cuda.empty_cache()  # what the widest pass took serves the graphs, whose pool is their own
        wanted = rooms(tokens, budget, small=not self._kernels.tiled)
        try:
            self.graphs.capture(wanted, lambda room: self._row([stand_in(room.longest, self._family)], room))
        except torch.OutOfMemoryError:  # under a tight cap small passes run without graphs, slower and right
            self.graphs = Graphs(self._compute, self._kernels.device)
            torch.cuda.empty_cache()

    def _fits(self, tokens: int, budget: int) -> bool:
        try:
            lengths = [tokens] * (budget // tokens) + ([budget % tokens] if budget % tokens else [])
            running = [
                self.launch([stand_in(n, self._family) for n in lengths]) for _ in range(2)
            ]  # two are under way later
            for each in running:
                each.wait()
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return False
        return True

    def held_mib(self) -> int:
        """MiB of CUDA memory this process holds for weights and workspace; 0 on the CPU."""
        return torch.cuda.memory_reserved(self._kernels.device) // MIB if self._on_cuda else 0

    def peak_bytes(self) -> int:
        """The most this process's allocator ever held on the device."""
        return torch.cuda.max_memory_reserved(self._kernels.device) if self._on_cuda else 0

    def _answers(self) -> bool:
        """Whether the device still computes; a CUDA context that met an illegal access never does again."""
        try:
            return torch.ones(2, device=self._kernels.device).sum().item() == 2.0
        except RuntimeError:
            return False


def stand_in(tokens: int, family: Family, generator: np.random.Generator | None = None) -> Ids:
    """A sequence of `tokens` tokens from all over the vocabulary, for passes nobody asked for."""
    ids = (generator or np.random.default_rng(0)).integers(0, family.vocabulary, tokens, dtype=np.int32)
    return np.where(ids == family.padding_id, (family.padding_id + 1) % family.vocabulary, ids).astype(np.int32)


class Running:
    """A pass under way: on CUDA its kernels are queued, and its results on their way into pinned memory."""

    def __init__(self, runner: Runner, count: int, compute: Callable[[], Tensor]) -> None:
        self._runner, self._count = runner, count
        began = time.perf_counter()
        if not runner._on_cuda:
            self._out = compute()
            runner.seconds += time.perf_counter() - began
            return
        self._began, self._ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._began.record()
        out = compute()[:count]
        self._out = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
        self._out.copy_(out, non_blocking=True)
        self._ended.record()

    def wait(self) -> np.ndarray:
        """One float32 row (or number) per sequence."""
        runner = self._runner
        if runner._on_cuda:
            try:
                self._ended.synchronize()
            except Exception:
                runner.is_well = runner._answers()
                raise
            runner.seconds += self._began.elapsed_time(self._ended) / 1000
        return self._out[: self._count].numpy()
