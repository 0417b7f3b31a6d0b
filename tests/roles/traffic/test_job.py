"""A server inside a job of Slurm, by its agent's answers to balancers and by its watchdog."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from host import job, places, watch
from host.traffic.stopping import mark


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directories of a job with a server `main`."""
    for name in ("ROOT", "RUNTIME", "SETTINGS"):
        monkeypatch.setattr(places, name, tmp_path)
    monkeypatch.setenv("INVOCATION_ID", "7.0")
    (tmp_path / "servers/main/current").mkdir(parents=True)
    return tmp_path


def agent_answer(service: job.JobService) -> str:
    """The agent's answer to a balancer after another check of the proofs."""
    asyncio.run(service.look())
    return service.agent("main")


def test_a_server_is_ready_from_its_proof_until_its_job_leaves(node: Path) -> None:
    """A requeued job begins without the mark of its last run."""
    service, proof = job.JobService({"main": ["minilm"]}), node / "servers/main/proof.json"
    assert agent_answer(service) == "drain"
    proof.write_text(json.dumps({"ok": False}))
    assert agent_answer(service) == "drain"
    proof.write_text(json.dumps({"ok": True}))
    assert agent_answer(service) == "ready"
    mark("main")
    assert agent_answer(service) == "drain"


def test_a_stale_mark_of_another_run_blocks_no_run(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SLURM_RESTART_COUNT is part of a run's name."""
    (node / "servers/main/proof.json").write_text(json.dumps({"ok": True}))
    mark("main")
    monkeypatch.setenv("INVOCATION_ID", "7.1")
    assert agent_answer(job.JobService({"main": ["minilm"]})) == "ready"


def test_the_watchdog_ends_once_a_model_was_silent_often_enough(
    node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The watchdog uses a host's number of misses; an answer in between resets the count."""
    (node / "watch.json").write_text(json.dumps({"watch_seconds": 0, "answer_seconds": 1, "misses": 2}))
    server = {"models": [{"name": "minilm"}], "address": "127.0.0.1", "http_port": 1, "metrics_port": 2}
    server |= {"restricted_header": "enginehouse-key", "start_seconds": 1}
    (node / "servers/main/current/server.json").write_text(json.dumps(server))
    looks = iter([1, 0, 1, 2])

    def look(asker: watch.Asker, model: dict[str, Any], counts: dict[str, Any]) -> None:
        counts["misses"] = next(looks)

    monkeypatch.setattr(watch, "look", look)
    assert job.main(["watch", "main"]) == 1
    assert (list(looks), "minilm did not answer the probe" in capsys.readouterr().out) == ([], True)


def test_other_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists the known words."""
    assert job.main(["watch"]) == 64
    assert "host job serve | watch SERVER" in capsys.readouterr().err
