"""Two GPUs in two layouts: the result of the clients' figures, and the condition for a served layout."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from rehearsal.real_gpu.generating import Generation
from rehearsal.real_gpu.layouts import RATES, cards, judged, ratios, wait_for_tokens
from tests.unit.samples import EMBEDDER, LLAMA, RERANKER, main, plan

HOST = plan(**main(RERANKER, EMBEDDER, LLAMA)).slices[0]
WELL = dict.fromkeys(RATES, 10.0) | {"errors": []}


class Card:
    """A machine whose cards use this many MiB."""

    def __init__(self, *used: int) -> None:
        self.output = "".join(f"{mib}\n" for mib in used)

    def run(self, command: str, *, check: bool = True, timeout: float | None = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, self.output, "")


class Server:
    """A server with these complaints, which restarted if its `identity` differs the second time."""

    def __init__(self, *complaints: str, now: str = "the container") -> None:
        self.server, self.lines, self.is_now = HOST.servers[0], list(complaints), now

    def complaints(self, since: str) -> list[str]:
        return self.lines

    def identity(self) -> dict[str, str]:
        return {"container": self.is_now}


def test_a_rate_is_reported_as_a_multiple_of_other_rates() -> None:
    under = WELL | {"llm_tokens_per_second": 0.0}
    shared = dict.fromkeys(RATES, 19.0)
    assert ratios(shared, under) == dict.fromkeys(RATES[:2], 1.9)


def test_a_gpu_that_is_emptier_than_its_plan_has_its_models_elsewhere() -> None:
    """Half of the planned memory shows that its models are there; a GPU without a server needs nothing."""
    server = HOST.servers[0]
    planned = server.overhead_mib + sum(model.memory.total_mib for model in server.models)
    rows = cards(Card(planned // 2 - 1, 0), HOST)
    assert rows == [
        {"gpu": 0, "planned_mib": planned, "used_mib": planned // 2 - 1, "placed": False},
        {"gpu": 1, "planned_mib": 0, "used_mib": 0, "placed": True},
    ]
    assert cards(Card(-(-planned // 2)), HOST)[0]["placed"]


def test_a_model_over_both_gpus_is_planned_on_each() -> None:
    both = replace(HOST, servers=(replace(HOST.servers[0], gpus=(0, 1)),))
    first, second = (row["planned_mib"] for row in cards(Card(1, 1), both))
    encoders = sum(model.memory.total_mib for model in HOST.servers[0].models[:2])
    assert first - second == encoders


@pytest.mark.parametrize(
    ("reading", "server", "passed"),
    [
        (WELL, Server(), True),
        (WELL | {"errors": ["500"]}, Server(), False),
        (WELL | {"llm_tokens_per_second": 0.0}, Server(), False),
        (WELL, Server("CUDA out of memory"), False),
        (WELL, Server(now="another"), False),
    ],
)
def test_a_layout_passes_where_every_model_answered_and_nothing_broke(
    reading: dict[str, Any], server: Any, passed: bool
) -> None:
    verdict = judged([reading], [server], ["10:00"], [{"container": "the container"}])
    assert verdict["passed"] is passed


def test_a_prompt_that_failed_is_not_waited_for() -> None:
    with pytest.raises(AssertionError, match="answered with: 503"):
        wait_for_tokens([Generation([], tokens=3), Generation([], errors=["503"])], 4)
    wait_for_tokens([Generation([], tokens=3), Generation([], tokens=1)], 4)
