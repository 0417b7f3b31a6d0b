"""Where a network runs: the device asked for, its memory cap, padded forward passes on it, and the first warm one."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from .errors import CheckpointError
from .settings import Settings

MIB = 2**20


def claim(settings: Settings) -> None:
    """The device exists and, with memory_mib, this process's allocations on it are capped; call before loading."""
    if settings.device == "cpu":
        return
    index, found = int(settings.device.removeprefix("cuda:")), torch.cuda.device_count()
    if index >= found:
        raise CheckpointError(f"config.pbtxt: device is {settings.device}; this process sees {found} CUDA devices")
    if settings.memory_mib:
        total = torch.cuda.get_device_properties(index).total_memory / MIB
        if settings.memory_mib > total:
            raise CheckpointError(
                f"config.pbtxt: memory_mib is {settings.memory_mib}; {settings.device} has {total:.0f}"
            )
        torch.cuda.set_per_process_memory_fraction(settings.memory_mib / total, index)


class Runner:
    """A network on its device as a function of token sequences; `head` turns its output into one result per row."""

    def __init__(self, network: nn.Module, device: str, padding_id: int, head: Callable[[Tensor, Tensor], Tensor]):
        self._network, self._device, self._padding_id, self._head = network, device, padding_id, head
        self.is_well = True

    @torch.inference_mode()
    def __call__(self, sequences: Sequence[Sequence[int]]) -> np.ndarray:
        lengths = torch.tensor([len(ids) for ids in sequences])
        ids = torch.full((len(sequences), int(lengths.max())), self._padding_id)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = torch.tensor(sequence)
        lengths = lengths.to(self._device)
        try:
            return self._head(self._network(ids.to(self._device), lengths), lengths).float().cpu().numpy()
        except torch.OutOfMemoryError:
            raise
        except Exception:
            self.is_well = self._answers()
            raise

    def warm_up(self, tokens: int, budget: int) -> int:
        """The budget of padded tokens one pass had memory for: `budget` in whole rows, or halved until it fitted.

        On CUDA the widest pass makes the allocator hold its workspace from now on, so memory taken later by other
        processes cannot starve this one. On the CPU nothing is held, and one row is enough.
        """
        rows = max(1, budget // tokens)
        if self._device == "cpu":
            self._fits(1, tokens)
            return min(budget, rows * tokens)
        while not self._fits(rows, tokens):
            if rows == 1:
                raise CheckpointError(
                    f"{self._device}: no memory for one sequence of {tokens} tokens; raise memory_mib"
                )
            rows //= 2
        return min(budget, rows * tokens)

    def _fits(self, rows: int, tokens: int) -> bool:
        try:
            self([[self._padding_id + 1] * tokens] * rows)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return False
        return True

    def held_mib(self) -> int:
        """MiB of CUDA memory this process holds for weights and workspace; 0 on the CPU."""
        return 0 if self._device == "cpu" else torch.cuda.memory_reserved(self._device) // MIB

    def _answers(self) -> bool:
        """Whether the device still computes; a CUDA context that met an illegal access never does again."""
        try:
            return torch.ones(2, device=self._device).sum().item() == 2.0
        except RuntimeError:
            return False
