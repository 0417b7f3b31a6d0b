"""The watchdog's check of an LLM beside Triton: busy is not silent, and its unit restarts without the encoders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from host import watch, watch_llm
from tests.roles.health.test_watch import STEADY, VECTOR, Host, counted, stats
from tests.roles.web import Answer, serving

WORDS: Answer = (200, {}, b'{"usage": {"completion_tokens": 8}}')
NOTHING: Answer = (500, {}, b"")
NAMES = {"answers_metric": "vllm:request_success_total", "tokens_metric": "vllm:generation_tokens_total"}
LLM = {"name": "llama", "runtime": "vllm", "metrics_path": "/metrics", **NAMES}


def page(answers: int = 1, tokens: int = 8) -> Answer:
    """The program's own counters, in the form of its page."""
    text = (
        "# TYPE vllm:request_success_total counter\n"
        f'vllm:request_success_total{{engine="0",finished_reason="length",model_name="llama"}} {answers}.0\n'
        'vllm:request_success_total{engine="0",finished_reason="abort",model_name="llama"} 0.0\n'
        f'vllm:generation_tokens_total{{engine="0",model_name="llama"}} {tokens}.0\n'
        "vllm:generation_tokens_total_created 1.7e9\n"
    )
    return 200, {}, text.encode()


class Beside(Host):
    """A server with an embedder in Triton and an LLM beside it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, monkeypatch)
        self.units["llm@main.service"] = dict(STEADY)

    def look_at(
        self,
        completion: Answer = WORDS,
        metrics: Answer | Callable[[], Answer] = page(),  # noqa: B008  # a tuple
        times: int = 1,
        embed: Answer = VECTOR,
    ) -> None:
        """Fires the timer so many times."""

        def engine(request: Any) -> Answer:
            if request.path == "/metrics":
                return metrics() if callable(metrics) else metrics
            return completion

        def triton(request: Any) -> Answer:
            return {"/metrics": counted(), "stats": stats(1)}.get(request.path.split("/")[-1], embed)

        with serving(engine) as beside, serving(triton) as server:
            port, llm_port = (int(web.address.rsplit(":", 1)[1]) for web in (server, beside))
            settings = {"address": "127.0.0.1", "http_port": port, "metrics_port": port, "llm_port": llm_port}
            settings |= {"restricted_header": "key", "start_seconds": 5, "llm": LLM}
            settings["models"] = [{"name": "embed", "kind": "embedder", "decoupled": False, "dimensions": 2}]
            (self.root / "releases/r1/server.json").write_text(json.dumps(settings))
            for _ in range(times):
                assert watch.main(["main"]) == 0

    @property
    def restarted(self) -> list[str]:
        """The units that systemd was asked to restart."""
        return [command[-1] for command in self.commands if "restart" in command]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Beside:
    """A host with an LLM beside Triton."""
    return Beside(tmp_path, monkeypatch)


def test_an_llm_that_answers_is_no_miss(host: Beside) -> None:
    host.look_at(times=4)
    assert (host.memory("llama")["misses_total"], host.memory("embed")["misses_total"], host.restarted) == (0, 0, [])


def test_a_silent_llm_restarts_alone(host: Beside) -> None:
    """The server's encoders still serve their clients."""
    host.look_at(NOTHING, times=3)
    assert host.restarted == ["llm@main.service"]


def test_a_busy_llm_is_slow_and_not_silent(host: Beside) -> None:
    tokens = iter(range(8, 10_000, 8))
    host.look_at(NOTHING, lambda: page(tokens=next(tokens)), times=4)
    assert (host.memory("llama")["misses"], host.memory("llama")["slow"], host.restarted) == (0, 1, [])


def test_a_silent_encoder_restarts_triton_as_ever(host: Beside) -> None:
    host.look_at(embed=NOTHING, times=3)
    assert host.restarted == ["triton@main.service"]


@pytest.mark.parametrize("state", [{"ActiveState": "activating"}, {"Job": "7"}])
def test_an_llm_that_starts_or_stops_is_not_judged(host: Beside, state: dict[str, str]) -> None:
    host.units["llm@main.service"] |= state
    host.look_at(NOTHING, times=4)
    assert (host.memory("llama")["misses"], host.restarted) == (0, [])


def test_another_start_of_the_llm_begins_its_count_anew(host: Beside) -> None:
    host.look_at(NOTHING, times=2)
    host.units["llm@main.service"] |= {"InvocationID": "two"}
    host.look_at(NOTHING, times=1)
    assert (host.memory("llama")["misses"], host.restarted) == (1, [])


def test_counters_are_those_of_the_metric_and_of_no_longer_name() -> None:
    """`…_created` holds the start time, which no request changes."""
    assert watch_llm.total(page(3, 40)[2].decode(), tuple(NAMES.values())) == 43.0
    assert watch_llm.total("python_gc_objects_collected_total 5\n", tuple(NAMES.values())) is None
