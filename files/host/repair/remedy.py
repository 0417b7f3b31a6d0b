"""The repair that faulty GPUs need, and whether this host may make it: a reset, a reboot, or a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from host.gpu_state import Problem

DAY_SECONDS = 86_400
WORDS = {"reset": "a reset", "reboot": "a reboot"}


@dataclass(frozen=True)
class Remedy:
    """The next step for faulty GPUs: `action` is "reset", "reboot", or empty if `person` has a person's reason."""

    action: str
    gpus: tuple[int, ...]
    person: str = ""


def remedy_of(problems: list[Problem], settings: dict[str, Any], refused: str, tries: list[float]) -> Remedy:
    """The repair of these problems, by the worst of them.

    `refused`: nvidia-smi's reason if it refused a reset since the GPUs were last fit. `tries` are the times of the
    repairs in the last day.
    """
    needs = {remedy for _, _, remedy in problems}
    gpus = tuple(sorted({gpu for gpu, _, _ in problems}))
    if "vendor" in needs:
        return Remedy("", gpus, "another card is needed: ask the provider for one")
    action = "reboot" if "boot" in needs or refused or settings["mig"] else "reset"
    if action == "reboot" and settings["allowed"] != "reboot":
        reason = f"nvidia-smi refused the reset ({refused})" if "boot" not in needs else "a reboot is needed"
        return Remedy("", gpus, f'{reason}, and Machine(repair="reset") allows no reboot: reboot the host')
    if len(tries) >= settings["tries"]:
        return Remedy("", gpus, f"repaired {len(tries)} times within a day, and the fault came back: check the card")
    return Remedy(action, gpus)


def recent(tries: list[float], now: float) -> list[float]:
    return [when for when in tries if abs(now - when) < DAY_SECONDS]


def sentence(problems: list[Problem]) -> str:
    return "; ".join(f"GPU {gpu}: {seen}" for gpu, seen, _ in problems[:4])
