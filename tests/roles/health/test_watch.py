"""The watchdog, with stand-ins of Triton and systemd."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from host import places, prove, systemd, watch
from tests.roles.web import Answer, serving

LOADS = ["chat", "chat_tensorrt_llm", "chat_completion"]
MODELS = (
    {"name": "embed", "kind": "embedder", "decoupled": False, "dimensions": 2},
    {"name": "chat", "kind": "llm", "path": "engine", "decoupled": True, "loads": LOADS},
    {"name": "talk", "kind": "llm", "path": "pytorch", "decoupled": True, "loads": ["talk"]},
)
VECTOR: Answer = (200, {}, b'{"outputs": [{"name": "embeddings", "data": [0.6, 0.8]}]}')
WORD: Answer = (200, {}, b'data: {"text_output": "turns"}\n\n')
BUSY: Answer = (503, {}, b'{"error": "Exceeds maximum queue size, a boiler of a steam engine"}')
SETTINGS = {"answer_seconds": 5, "misses": 3, "restarts": 2, "restart_hours": 2}
STEADY = {"ActiveState": "active", "Job": "", "InvocationID": "one"}
IDLE = {"ActiveState": "inactive", "Job": "", "InvocationID": ""}


def stats(count: int, parts: int = 0) -> Answer:
    """A model's statistics with these numbers of answers and of parts of streamed answers."""
    statistics = {
        "inference_stats": {"success": {"count": count}},
        "response_stats": {"0": {"success": {"count": parts}}},
    }
    return 200, {}, json.dumps({"model_stats": [statistics]}).encode()


def counted(embed: int = 1, talk: int = 1) -> Answer:
    """A page of /metrics with these numbers of answers, counted by the models."""
    metrics = f'enginehouse_encoder_answers_total{{model="embed"}} {embed}.000000\n'
    metrics += 'enginehouse_llm_answers_total{model="chat_completion"} 1.000000\n'
    return 200, {}, f'{metrics}enginehouse_llm_answers_total{{model="talk"}} {talk}.000000\n'.encode()


class Host:
    """A server's folder, its units as systemd shows them, and the commands to systemd."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.place = root, root / "servers/main"
        self.units = {"triton@main.service": dict(STEADY), "enginehouse-swap@main.service": dict(IDLE)}
        self.commands: list[list[str]] = []
        (root / "releases/r1").mkdir(parents=True)
        self.place.mkdir(parents=True)
        (self.place / "current").symlink_to("../../releases/r1")
        (root / "watch.json").write_text(json.dumps(SETTINGS))
        monkeypatch.setattr(places, "ROOT", root)
        monkeypatch.setattr(places, "SETTINGS", root)
        monkeypatch.setattr(systemd, "show", lambda unit, *names: {name: self.units[unit][name] for name in names})
        monkeypatch.setattr(subprocess, "run", self._run)

    def _run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    def look(self, times: int = 1, **answers: Answer | Callable[[], Answer]) -> None:
        """Fires the timer `times` times; the models give these answers (None: right answers)."""
        right = {"embed": VECTOR, "chat": WORD, "embed_stats": stats(1), "chat_stats": stats(1)} | answers
        right |= {"talk": answers.get("talk", WORD), "talk_stats": answers.get("talk_stats", stats(1))}
        right |= {"metrics": answers.get("metrics", counted()), "chat_tensorrt_llm_bls": WORD}
        right |= {"chat_tensorrt_llm_stats": answers.get("engine_stats", stats(1))}
        right |= {"chat_completion": answers.get("completion", WORD)}

        def answer(request: Any) -> Answer:
            name, verb = request.path.split("/")[3:5] if request.path != "/metrics" else ("metrics", "")
            answer_or_function = right[f"{name}_stats" if verb == "stats" else name]
            return answer_or_function() if callable(answer_or_function) else answer_or_function

        with serving(answer) as triton:
            port = int(triton.address.rsplit(":", 1)[1])
            settings = {"address": "127.0.0.1", "http_port": port, "metrics_port": port}
            settings |= {"restricted_header": "key", "start_seconds": 5, "models": MODELS}
            (self.root / "releases/r1/server.json").write_text(json.dumps(settings))
            for _ in range(times):
                assert watch.main(["main"]) == 0

    def memory(self, model: str = "embed") -> dict[str, Any]:
        """The watchdog's record of a model after its last look."""
        return dict(json.loads((self.place / "watch.json").read_text())["models"][model])

    @property
    def restarts(self) -> int:
        """Number of times that systemd was asked to restart the server."""
        return self.commands.count(["systemctl", "restart", "--no-block", "triton@main.service"])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host whose server serves."""
    return Host(tmp_path, monkeypatch)


def test_a_server_that_answers_is_left_alone(host: Host) -> None:
    host.look(5)
    assert (host.restarts, host.memory()["misses"], host.memory()["misses_total"]) == (0, 0, 0)


def test_fewer_misses_than_the_limit_restart_nothing(host: Host) -> None:
    host.look(2, embed=BUSY)
    assert (host.restarts, host.memory()["misses"], host.memory("chat")["misses"]) == (0, 2, 0)


def test_the_third_miss_in_a_row_restarts_the_unit_once(host: Host) -> None:
    host.look(3, embed=BUSY)
    assert host.restarts == 1


def test_an_answer_in_between_starts_the_count_again(host: Host) -> None:
    host.look(2, embed=BUSY)
    host.look()
    host.look(2, embed=BUSY)
    assert (host.restarts, host.memory()["misses"], host.memory()["misses_total"]) == (0, 2, 4)


@pytest.mark.parametrize("model", ["embed", "talk"])
def test_a_model_that_answers_others_is_slow_and_never_missing(host: Host, model: str) -> None:
    counts = iter(range(1, 100))
    host.look(6, metrics=lambda: counted(**{model: next(counts)}), **{model: BUSY})
    seen = host.memory(model)
    assert (host.restarts, seen["slow"], seen["misses_total"]) == (0, 1, 0)


@pytest.mark.parametrize("model", ["embed", "talk"])
def test_an_unanswered_triton_success_is_not_a_sign_of_life(host: Host, model: str) -> None:
    """Triton also counts a request that an encoder or the LLM slot took over, and a refused one."""
    taken = iter(range(1, 100))
    host.look(3, **{model: BUSY, f"{model}_stats": lambda: stats(next(taken))})
    assert (host.restarts, host.memory(model)["slow"]) == (1, 0)


def test_a_streaming_engine_that_moves_is_slow_although_nothing_ends(host: Host) -> None:
    counts = iter(range(1, 100))
    host.look(6, chat=BUSY, engine_stats=lambda: stats(1, parts=next(counts)))
    assert (host.restarts, host.memory("chat")["slow"]) == (0, 1)


def test_a_dead_completion_process_is_silent_although_its_engine_answers(host: Host) -> None:
    """The engine counts even the watchdog's question, so a dead process counted as slow for ever (2026-11-28)."""
    counts = iter(range(1, 100))
    dead: Answer = (500, {}, b'{"error": "Stub process \'chat_completion_0_0\' is not healthy."}')
    host.look(3, completion=dead, engine_stats=lambda: stats(next(counts), parts=next(counts)))
    assert (host.restarts, host.memory("chat_completion")["slow"], host.memory("chat")["misses_total"]) == (1, 0, 0)


def test_requests_that_only_come_in_are_no_sign_of_life(host: Host) -> None:
    coming = iter(range(1, 100))

    def queued() -> Answer:
        statistics = {
            "inference_stats": {"success": {"count": 1}, "queue": {"count": next(coming)}},
            "inference_count": 9,
        }
        return 200, {}, json.dumps({"model_stats": [statistics]}).encode()

    host.look(3, chat=BUSY, engine_stats=queued)
    assert host.restarts == 1


@pytest.mark.parametrize("silent", [{"embed": BUSY, "metrics": (500, {}, b"")}, {"chat": BUSY, "chat_stats": BUSY}])
def test_a_server_without_statistics_is_silent(host: Host, silent: dict[str, Answer]) -> None:
    host.look(3, **silent)
    assert host.restarts == 1


def test_a_release_from_before_its_models_counted_is_judged_by_tritons_statistics(host: Host) -> None:
    counts = iter(range(1, 100))
    host.look(6, embed=BUSY, metrics=(200, {}, b""), embed_stats=lambda: stats(next(counts)))
    assert (host.restarts, host.memory()["slow"]) == (0, 1)


def test_a_full_queue_costs_a_look_one_question_and_no_wait(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[Answer] = []
    monkeypatch.setattr(prove.Triton, "pause", lambda *_: pytest.fail("the watchdog waited for room"))
    host.look(1, talk=lambda: questions.append(BUSY) or BUSY)
    assert (len(questions), host.memory("talk")["misses"]) == (1, 1)


@pytest.mark.parametrize("unit", [{"ActiveState": "activating"}, {"ActiveState": "deactivating"}, {"Job": "77"}])
def test_the_watchdog_does_not_ask_while_the_unit_starts_or_stops(host: Host, unit: dict[str, str]) -> None:
    host.units["triton@main.service"] |= unit
    host.look(5, embed=BUSY)
    assert (host.restarts, (host.place / "watch.json").exists()) == (0, False)


@pytest.mark.parametrize("swap", [{"ActiveState": "activating"}, {"Job": "78"}])
def test_the_watchdog_does_not_ask_during_a_swap(host: Host, swap: dict[str, str]) -> None:
    host.units["enginehouse-swap@main.service"] |= swap
    host.look(5, embed=BUSY)
    assert host.restarts == 0


def test_the_watchdog_does_not_ask_before_a_cut_swap_is_undone(host: Host) -> None:
    (host.place / "swap.json").write_text("{}")
    host.look(5, embed=BUSY)
    assert host.restarts == 0


def test_a_swap_that_holds_the_lock_wins(host: Host) -> None:
    with (host.place / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        host.look(4, embed=BUSY)
    assert (host.restarts, (host.root / "history.jsonl").exists()) == (0, False)


def test_misses_of_an_earlier_start_do_not_count(host: Host) -> None:
    host.look(2, embed=BUSY)
    host.units["triton@main.service"]["InvocationID"] = "two"
    host.look(1, embed=BUSY)
    assert (host.restarts, host.memory()["misses"], host.memory()["misses_total"]) == (0, 1, 3)


def test_a_restart_is_a_line_of_history(host: Host) -> None:
    host.look(3, embed=BUSY)
    entry = json.loads((host.root / "history.jsonl").read_text())
    assert (entry["who"], entry["result"], entry["release"]) == ("this host's watchdog", "restarted", "r1")
    assert entry["reason"] == "embed did not answer 3 probes in a row"


def test_restarts_that_do_not_help_end(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(4):
        host.units["triton@main.service"]["InvocationID"] = str(number)
        host.look(3, embed=BUSY)
    assert host.restarts == 2
    assert "restarted 2 times in 2 h already, so a person must act" in capsys.readouterr().out


def test_restarts_of_a_clock_that_was_a_year_ahead_do_not_count(host: Host) -> None:
    host.look(3, embed=BUSY)
    memory = json.loads((host.place / "watch.json").read_text())
    ahead = {"restarts": [memory["restarts"][0] + 365 * 86_400] * 2}
    (host.place / "watch.json").write_text(json.dumps(memory | ahead))
    host.units["triton@main.service"]["InvocationID"] = "another"
    host.look(3, embed=BUSY)
    assert host.restarts == 2


def test_neither_question_nor_answer_is_logged(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.look(3, embed=BUSY, chat=(500, {}, b'{"error": "the boiler turns"}'))
    kept = "".join(path.read_text() for path in host.root.rglob("*") if path.is_file() and path.name != "server.json")
    assert "boiler" not in kept + capsys.readouterr().out


def test_node_exporter_reads_the_same(host: Host) -> None:
    host.look(3, embed=BUSY)
    metrics = (host.root / "metrics/watch-main.prom").read_text().splitlines()
    assert 'enginehouse_watch_misses_total{server="main",model="embed"} 3' in metrics
    assert 'enginehouse_watch_restarts_total{server="main"} 1' in metrics
    assert 'enginehouse_watch_release{server="main",release="r1"} 1' in metrics
    assert "# TYPE enginehouse_watch_answer_seconds gauge" in metrics
