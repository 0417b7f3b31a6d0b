"""The measuring part of a run on a real card, tried on a server without a card: every step ends with its findings."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.real_gpu import bare, layouts, slot, weights, workspaces
from rehearsal.real_gpu.generating import Shape
from rehearsal.real_gpu.measure import Setting, facts, take
from rehearsal.real_gpu.report import step
from tests.real_gpu import deployed

pytestmark = pytest.mark.rehearsal


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Yields a served release with small models on a CPU, and its measurement settings."""
    work = tmp_path_factory.mktemp("real-gpu")
    with pytest.MonkeyPatch.context() as monkeypatch:
        deployed.patched(monkeypatch, work)
        weights.encoders(work / "weights", "cpu", small=True)
        weights.llama(work / "weights" / weights.LLAMA, "tiny", "cpu")
        with deployed.deployed(work, work / "weights") as server:
            yield Setting(
                server,
                usable_mib=81_079,
                weights=work / "weights",
                device="cpu",
                seconds=0.5,
                runs=1,
                cases=("rerank-mixed", "embed-query"),
                beside_seconds=1.0,
                small=True,
                prompts=Shape((64, 64), 16),
            )


def measured(setting: Setting, folder: Path, name: str) -> dict[str, Any]:
    """Returns the figures in the step's file."""
    with step(name, folder, facts(setting)) as figures:
        take(name, setting, figures)
    record = json.loads((folder / f"step-{name}.json").read_text())
    assert record["ok"], record
    return dict(record["found"])


def test_the_memory_of_each_model_is_the_step_around_its_load(setting: Setting, tmp_path: Path) -> None:
    figures, planned = (
        measured(setting, tmp_path, "memory"),
        {model.name: model.memory for model in setting.deployed.server.models},
    )
    assert {row["model"]: row["after_load_mib"] for row in figures["models"]} == {
        name: memory.total_mib for name, memory in planned.items()
    }
    assert [row["within"] for row in figures["models"][:2]] == [True, True]
    assert figures["sum"]["measured_mib"] == figures["sum"]["planned_mib"]
    assert figures["tritonserver"]["measured_mib"] == setting.deployed.server.overhead_mib
    assert figures["served_mib"] == figures["after_passes_mib"]


def test_the_cache_is_filled_while_both_encoders_are_asked(setting: Setting, tmp_path: Path) -> None:
    figures = measured(setting, tmp_path, "filled")
    assert figures["held_percent"] >= 80 and figures["sequences"] == 4 and figures["goal_tokens"] == 4096
    assert figures["llm"]["errors"] == [] and figures["llm"]["tokens_per_second"] > 0
    assert all(figures["encoders"][kind]["documents_answered"] > 0 for kind in ("reranker", "embedder"))
    assert figures["held_tokens"]["most"] <= figures["goal_tokens"]
    assert not figures["restarted"]


def test_encoders_are_compared_in_turn_and_then_beside_the_llm(setting: Setting, tmp_path: Path) -> None:
    figures = measured(setting, tmp_path, "encoders")
    assert [row["case"] for row in figures["cases"]] == [row["case"] for row in figures["beside_llm"]]
    for row in figures["cases"]:
        assert row["bare"]["documents_per_second"] > 0 < row["container"]["documents_per_second"]
    assert figures["llm_meanwhile"] == "idle" and figures["llm"]["errors"] == []
    chosen = {"bge": ["plain steps"], "nomic": ["plain steps"]}
    assert figures["kernels"] == {"container": chosen, "bare": chosen}
    assert figures["kernel_problems"] == [
        f"{side}, {model}: plain steps" for side in figures["kernels"] for model in chosen
    ]


def test_all_models_are_loaded_at_once_by_one_share_and_by_two(setting: Setting, tmp_path: Path) -> None:
    """Two shares on one server, like on a server over two GPUs."""
    tokenizers = {kind: setting.tokenizer(kind) for kind in setting.encoders}
    load = layouts.Load(setting.llm_prompts, setting.prompts, 1.0, tokenizers, small=True)
    figures = layouts.over_all(setting.deployed, 2, load, tmp_path, dict.fromkeys(layouts.RATES, 1e9))
    both = figures["one_server_over_both"]
    assert (both["shares"], both["errors"], figures["passed"]) == (2, [], True), figures
    assert all(both[rate] > 0 and figures["two_servers_for_it"][rate] > 1 for rate in layouts.RATES)


def test_each_encoder_is_measured_at_each_budget_without_triton(setting: Setting) -> None:
    figures = workspaces.main([str(setting.weights), "--device", "cpu", "--tokens", "512", "1024"])
    rows = [(row["kind"], row["max_batch_tokens"], row["budget_after_warm_up"]) for row in figures["encoders"]]
    assert rows == [
        ("reranker", 512, 512), ("reranker", 1024, 1024), ("embedder", 512, 512), ("embedder", 1024, 1024),
    ]  # fmt: skip
    assert all(row["after_full_passes"]["outside_mib"] == 0 for row in figures["encoders"])


def test_an_unmeasurable_encoder_does_not_prevent_measuring_the_others(
    setting: Setting, capfd: pytest.CaptureFixture[str]
) -> None:
    """A budget below one text's tokens is invalid. Every printed line has all results so far."""
    figures = workspaces.main([str(setting.weights), "--device", "cpu", "--tokens", "1", "512"])
    assert [("problem" in row, "loaded" in row) for row in figures["encoders"]] == [(True, False), (False, True)] * 2
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [len(line["encoders"]) for line in lines] == [1, 2, 3, 4]
    assert (lines[-1], figures["passed"]) == (figures, False)


def test_a_server_is_restarted_only_if_a_model_is_unloaded(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start loads the model again, like the unit on a host."""
    deployed_, (first, *_) = setting.deployed, setting.deployed.server.models
    assert not deployed_.revive()
    deployed_.unload(first)
    monkeypatch.setattr(type(deployed_), "start", lambda self: self.load(first))
    assert deployed_.revive()
    assert not deployed_.revive()


def test_every_streamed_answer_is_complete_and_a_disconnect_ends_only_its_own(setting: Setting) -> None:
    deployed = setting.deployed
    model = deployed.model("llm")
    running = f'enginehouse_llm_running_requests{{model="{model.name}"}}'
    counted = slot.counted(deployed.grpc, model, 12, 4)
    assert counted["passed"] and counted["answers"] == 12 and counted["tokens"] > 12, counted
    assert slot.left(deployed.grpc, model, 2, lambda: deployed.metrics()[running])["passed"]


def test_kernels_are_read_once_every_model_has_logged_them(tmp_path: Path) -> None:
    """A model of Triton is ready before its log lines: an early read named one model of two."""
    log, line = tmp_path / "log", "{}: Embedder on cpu in fp32, up to 512 tokens, 9 MiB held; plain steps\n"
    log.write_text(line.format("bge"))
    writer = threading.Timer(0.2, lambda: log.write_text(line.format("bge") + line.format("nomic")))
    writer.start()
    assert bare.logged(log, {"bge", "nomic"}) == {"bge": ["plain steps"], "nomic": ["plain steps"]}
    assert bare.logged(log, {"bge", "missing"}, seconds=0) == {"bge": ["plain steps"], "nomic": ["plain steps"]}
    writer.join()
