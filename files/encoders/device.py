"""A network's device: its memory cap, packed passes on it, and the passes that warm it up."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor

from .choices import Kernels
from .errors import CheckpointError
from .family import Family
from .graphs import SMALL, Graphs, rooms, smallest
from .packing import Form, Ids, Packed, form, pack
from .settings import Settings

MIB = 2**20
PROMPT_LETTERS = 4096
ROUND = 64  # tokens of a pass on CUDA are a multiple: fewer shapes for cuBLAS to choose kernels for
Held = tuple[Tensor, np.ndarray]
"""Pinned memory for a packed row, as a torch tensor and as a numpy array."""


def claim(settings: Settings) -> None:
    """Checks that the device exists, and limits this process's allocations on it (memory_mib). Called before loading.

    Raises: CheckpointError if the device does not exist or has less memory.
    """
    if settings.device == "cpu":
        return
    index, count = int(settings.device.removeprefix("cuda:")), torch.cuda.device_count()
    if index >= count:
        raise CheckpointError(f"config.pbtxt: device is {settings.device}; this process sees {count} CUDA devices")
    torch.cuda.set_device(index)
    if settings.memory_mib:
        total = torch.cuda.get_device_properties(index).total_memory / MIB
        if settings.memory_mib > total:
            raise CheckpointError(
                f"config.pbtxt: memory_mib is {settings.memory_mib}; {settings.device} has {total:.0f}"
            )
        torch.cuda.set_per_process_memory_fraction(settings.memory_mib / total, index)


class Runner:
    """A network on its device as a function of token sequences; `finish` turns its output into a row per sequence.

    On CUDA, passes may run in `streams` streams concurrently. While one stream waits for memory, or its last tiles
    leave multiprocessors idle, another computes; within the same power limit the GPU does more work at a lower clock.
    Full passes of bge-reranker-large, fp16, H100 80GB HBM3, 2026-11-21, texts a second in one stream and in two: 6,357
    and 6,505 of 128 tokens, 1,487 and 1,550 of 512.
    """

    def __init__(
        self,
        network: Callable[[Packed], Tensor],
        kernels: Kernels,
        family: Family,
        finish: Callable[[Tensor, Packed], Tensor] = lambda out, _: out,
        streams: int = 1,
    ) -> None:
        self._network, self._kernels, self._family, self._finish = network, kernels, family, finish
        self._on_cuda = kernels.device != "cpu"
        self.lanes: list[Graphs] = []
        """Pairs of a stream and its graphs; none on the CPU."""
        if self._on_cuda:
            # Weights are copied in another stream, for which the streams of the lanes do not wait.
            torch.cuda.synchronize()
            self.lanes = [Graphs(self._compute, torch.cuda.Stream()) for _ in range(streams)]
        self._lane = 0
        self._launching = threading.Lock()
        self._spare: list[Held] = []
        """Pinned rows that no pass uses any more."""
        self.is_well = True
        self.time = DeviceTime()
        """Time that the device spent in passes."""

    @property
    def prompt_letters(self) -> int:
        """Up to this number of characters, a pass is so short that the calling thread computes it; 0 without graphs."""
        return PROMPT_LETTERS if self.lanes and self.lanes[0].offered else 0

    @property
    def streams(self) -> int:
        """Number of passes that can run at the same time."""
        return max(1, len(self.lanes))

    def launch(self, sequences: Sequence[Ids], concurrent: bool = False) -> "Running":
        """Launches a pass over `sequences`; with `concurrent` beside the pass before it, if another stream is free.

        Raises: torch.OutOfMemoryError, and the network's own exceptions; `is_well` then tells whether the device still
        computes.
        """
        with self._launching:  # no other pass may come between a graph's input and its replay
            return self._launched(sequences, concurrent)

    def _launched(self, sequences: Sequence[Ids], concurrent: bool) -> "Running":
        if concurrent and self.lanes:
            self._lane = (self._lane + 1) % len(self.lanes)
        lane = self.lanes[self._lane] if self.lanes else None
        room = smallest(lane.offered, sequences) if lane else None
        try:
            with torch.inference_mode(), torch.cuda.stream(lane.stream) if lane else nullcontext():
                here = room or form(sequences, ROUND if lane else 1)
                held = self._pinned(here.size) if self._on_cuda else None
                # Before the pass begins, so that its measured time is only the device's.
                row = self._row(sequences, here, held)
                is_long = here.tokens > SMALL[-1]
                if lane and room:
                    return Running(self, len(sequences), lambda: lane.run(room, row), is_long, held)
                return Running(self, len(sequences), lambda: self._eager(row, here), is_long, held)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            raise
        except Exception:
            self.is_well = self._answers()
            raise

    def __call__(self, sequences: Sequence[Ids]) -> np.ndarray:
        """Waits for the pass; a float32 row (or number) per sequence, [sequences, …]."""
        return self.launch(sequences).wait()

    def _eager(self, row: Tensor, room: Form) -> Tensor:
        return self._compute(Packed.of_row(row.to(self._kernels.device, non_blocking=True), room))

    def _compute(self, batch: Packed) -> Tensor:
        return self._finish(self._network(batch), batch).float()

    def _row(self, sequences: Sequence[Ids], room: Form, held: Held | None = None) -> Tensor:
        family = self._family
        counting = (family.counted_from, family.uncounted, family.second_rows)
        if held is None:
            return torch.from_numpy(pack(sequences, room, family.padding_id, *counting))
        pack(sequences, room, family.padding_id, *counting, into=held[1][: room.size])
        return held[0][: room.size]

    def _pinned(self, size: int) -> Held:
        """Pinned memory for a row of at least `size` numbers."""
        if self._spare and len((held := self._spare.pop())[1]) >= size:
            return held
        row = torch.empty(size, dtype=torch.int32, pin_memory=True)
        return row, row.numpy()

    def warm_up(self, tokens: int, budget: int) -> int:
        """The token budget of a pass: `budget`, halved until a pass fits into memory. Also captures the small graphs.

        On CUDA, the graphs keep the workspace of the widest pass, so that other processes cannot take this memory
        later. A pass with more short texts than any graph holds allocates further memory; if there is none, it is split
        until a graph holds it. On the CPU no memory is kept, and one sequence is enough.

        Raises: CheckpointError if memory does not suffice for one sequence of `tokens` tokens.
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
        # Frees the workspace of the widest pass for the graphs, which have their own memory pool.
        torch.cuda.empty_cache()
        wanted = rooms(tokens, budget, small=not self._kernels.tiled)
        try:
            with torch.inference_mode():
                for lane in self.lanes:
                    lane.capture(wanted, lambda room: self._row([stand_in(room.longest, self._family)], room))
        # Under a tight cap, small passes run without graphs: slower, with the same results.
        except torch.OutOfMemoryError:
            for lane in self.lanes:
                lane.clear()
            torch.cuda.empty_cache()

    def _fits(self, tokens: int, budget: int) -> bool:
        try:
            lengths = [tokens] * (budget // tokens) + ([budget % tokens] if budget % tokens else [])
            texts = [stand_in(n, self._family) for n in lengths]
            running = [self.launch(texts, True) for _ in range(2 * self.streams)]  # as many passes as run at once later
            for under_way in running:
                under_way.wait()
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return False
        return True

    def held_mib(self) -> int:
        """MiB of CUDA memory that this process holds for weights and workspace; 0 on the CPU."""
        return int(torch.cuda.memory_reserved(self._kernels.device)) // MIB if self._on_cuda else 0

    def peak_bytes(self) -> int:
        """Peak number of bytes that this process's allocator held on the device."""
        return int(torch.cuda.max_memory_reserved(self._kernels.device)) if self._on_cuda else 0

    def _answers(self) -> bool:
        """True if the device still computes; a CUDA context never does after an illegal memory access."""
        try:
            return bool(torch.ones(2, device=self._kernels.device).sum().item() == 2.0)
        except RuntimeError:
            return False


class DeviceTime:
    """Time during which at least one pass ran on the device; overlapping passes of two streams count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last: torch.cuda.Event | None = None

    def add(self, began: torch.cuda.Event, ended: torch.cuda.Event) -> None:
        """Adds the time between two recorded events, except for the part before the latest end so far."""
        milliseconds = began.elapsed_time(ended)
        if self._last is not None:
            # Negative if this pass ended before the latest one.
            milliseconds = min(milliseconds, self._last.elapsed_time(ended))
        if milliseconds >= 0:
            self.seconds += milliseconds / 1000
            self._last = ended


def stand_in(tokens: int, family: Family, generator: np.random.Generator | None = None) -> Ids:
    """Random ids [tokens] from the whole vocabulary, for warm-up passes."""
    ids = (generator or np.random.default_rng(0)).integers(0, family.vocabulary, tokens, dtype=np.int32)
    return np.where(ids == family.padding_id, (family.padding_id + 1) % family.vocabulary, ids).astype(np.int32)


class Running:
    """A running pass: on CUDA its kernels are queued, and its results are being copied to pinned memory.

    The thread sleeps while it waits for a long pass. It polls for a short one, which returns sooner and keeps a core
    busy.
    """

    def __init__(
        self,
        runner: Runner,
        count: int,
        compute: Callable[[], Tensor],
        is_long: bool = False,
        held: Held | None = None,
    ) -> None:
        self._runner, self._count, self._held = runner, count, held
        began = time.perf_counter()
        if not runner._on_cuda:
            self._out = compute()
            runner.time.seconds += time.perf_counter() - began
            return
        self._began, self._ended = (torch.cuda.Event(enable_timing=True, blocking=is_long) for _ in range(2))
        stream = torch.cuda.current_stream()
        self._began.record(stream)
        out = compute()[:count]
        self._out = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
        self._out.copy_(out, non_blocking=True)
        self._ended.record(stream)

    def wait(self) -> np.ndarray:
        """Waits for the pass; a float32 row (or number) per sequence, [sequences, …].

        Raises: the device's error; the runner's `is_well` then tells whether the device still computes.
        """
        runner = self._runner
        if runner._on_cuda:
            try:
                self._ended.synchronize()
            except Exception:
                runner.is_well = runner._answers()
                raise
            runner.time.add(self._began, self._ended)
            if self._held is not None:
                runner._spare.append(self._held)
                self._held = None
        results: np.ndarray = self._out[: self._count].numpy()
        return results
