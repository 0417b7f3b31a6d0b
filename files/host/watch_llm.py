"""The watchdog's check of the LLM beside a Triton server: one short request, judged as in `watch`.

A busy program that answers others counts as slow, not as silent, by its own counters of answers and tokens.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from host import prove, prove_llm, systemd

NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?")


class Asker(prove_llm.Engine):
    """The program, with one time limit for all requests."""

    def __init__(self, served: dict[str, Any], name: str, seconds: float) -> None:
        super().__init__(served, name)
        self.seconds, self.page = seconds, served["llm"]["metrics_path"]
        self.metrics = tuple(served["llm"][key] for key in ("answers_metric", "tokens_metric"))

    def ask(
        self, path: str, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None, seconds: float = 0
    ) -> tuple[int, bytes]:
        return super().ask(path, body, headers, self.seconds)

    def progress(self) -> float | None:
        """Answers and tokens of the program since its start; None if it does not report them."""
        try:
            status, content = self.ask(self.page)
        except OSError:
            return None
        return total(content.decode(errors="replace"), self.metrics) if status == 200 else None


def total(page: str, metrics: tuple[str, ...]) -> float | None:
    """The sum of all samples of these metrics on a page of Prometheus; None without a sample."""
    starts = tuple(f"{name}{mark}" for name in metrics for mark in "{ ")
    texts = [line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(starts)]
    values = [float(text) for text in texts if NUMBER.fullmatch(text)]
    return sum(values) if values else None


def look(unit: str, served: dict[str, Any], server: str, memory: dict[str, Any], seconds: float) -> None:
    """Updates the LLM's record: answers, slow or silent; unchanged while its unit starts or stops."""
    name = memory["llm"] = served["llm"]["name"]
    state = systemd.show(unit, "ActiveState", "Job", "InvocationID")
    counts = memory["models"][name]
    if state["ActiveState"] != "active" or systemd.has_job(state):
        return
    if memory.get("llm_invocation") != state["InvocationID"]:
        memory["llm_invocation"] = state["InvocationID"]
        counts |= {"misses": 0, "slow": 0, "answered": None}
    judge(Asker(served, server, seconds), counts)


def judge(asker: Asker, counts: dict[str, Any]) -> None:
    count(counts, lambda: is_answered(asker), asker.progress)


def count(counts: dict[str, Any], answers_request: Callable[[], bool], progress: Callable[[], float | None]) -> None:
    """Counts a miss unless the request was answered, or the program answered another one meanwhile."""
    before = counts["answered"] if counts["answered"] is not None else progress()
    began = time.monotonic()
    answers = answers_request()
    took, now = time.monotonic() - began, progress()
    moved = now is not None and before is not None and now > before
    counts["slow"] = int(moved and not answers)
    if answers:
        counts["answer_seconds"] = round(took, 3)
    if answers or moved:
        counts["misses"] = 0
    else:
        counts["misses"] += 1
        counts["misses_total"] += 1
    counts["answered"] = before if now is None else now


def is_answered(asker: Asker) -> bool:
    """True if the request got an answer. A wrong answer may quote any text, so it is not printed."""
    try:
        prove_llm.answer(asker)
    except (prove.NotServing, OSError, ValueError, KeyError, TypeError):
        return False
    return True
