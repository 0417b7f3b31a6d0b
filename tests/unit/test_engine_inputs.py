"""Keys, files and programs that a build needs on the control machine are checked before any host."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.io.engine_inputs import input_problems
from deploy.spec import EngineStore, EngineTrust
from tests.roles.engines.samples import a_replay, an_engine, slices
from tests.roles.slices import a_slice


@pytest.fixture
def trust(tmp_path: Path) -> EngineTrust:
    """An existing key."""
    (tmp_path / "key").write_text("key")
    return EngineTrust(key=str(tmp_path / "key"))


def kinds(*engines: object, root: Path) -> list[str]:
    """The kinds of the refusals."""
    return [problem.kind for problem in input_problems(engines, root)]


def test_an_inventory_that_has_all_is_not_refused(trust: EngineTrust, tmp_path: Path) -> None:
    assert kinds(*slices(trust, engine=an_engine(replay=a_replay(tmp_path))), root=tmp_path) == []


def test_a_missing_key_is_refused_once_for_all_hosts(tmp_path: Path) -> None:
    (problem,) = input_problems(slices(EngineTrust(key="keys/engines"), "a", "b"), tmp_path)
    assert str(problem) == (
        "no engine can be signed: there is no key keys/engines\n"
        "  where   @fake/a and 1 more: engine_trust.key\n"
        "  seen    no such file\n"
        "  wanted  a private key of ssh-keygen, or the .pub file of one in your agent\n"
        "  try     ssh-keygen -t ed25519 -N '' -C engines -f keys/engines\n"
        "  state   planning; no host was changed"
    )


def test_a_public_half_without_its_key_is_enough_to_look(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA")
    assert kinds(*slices(EngineTrust(key=str(tmp_path / "key"))), root=tmp_path) == []


@pytest.mark.parametrize(
    ("store", "kind"),
    [
        (EngineStore.directory("nowhere"), "no-engine-store"),
        (EngineStore.rclone("remote:bucket"), "no-program"),
        (EngineStore.directory("."), ""),
    ],
)
def test_a_store_has_to_be_reachable_from_here(
    trust: EngineTrust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: EngineStore, kind: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "rclone" else name)
    assert kinds(*slices(trust, engine_store=store), root=tmp_path) == ([kind] if kind else [])


@pytest.mark.parametrize("text", ["", "no json\n", '{"tokens": [1]}\n'])
def test_prompts_that_cannot_be_read_are_refused(trust: EngineTrust, tmp_path: Path, text: str) -> None:
    replay = a_replay(tmp_path)
    (tmp_path / "prompts.jsonl").write_text(text)
    assert kinds(*slices(trust, engine=an_engine(replay=replay)), root=tmp_path) == ["replay-file"]


def test_a_task_with_an_invalid_pattern_is_refused(trust: EngineTrust, tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"prompt": "one", "expected": "[a"}\n')
    replay = a_replay(tmp_path, tasks=str(tmp_path / "tasks.jsonl"))
    assert kinds(*slices(trust, engine=an_engine(replay=replay)), root=tmp_path) == ["replay-file"]


def test_calibration_texts_have_to_be_there(trust: EngineTrust, tmp_path: Path) -> None:
    assert kinds(*slices(trust, engine=an_engine(calibration="texts")), root=tmp_path) == ["no-calibration"]
    (tmp_path / "texts").mkdir()
    assert kinds(*slices(trust, engine=an_engine(calibration="texts")), root=tmp_path) == []


def test_hosts_without_engines_need_nothing(tmp_path: Path) -> None:
    assert kinds(a_slice(engine_trust=EngineTrust(key="nowhere")), root=tmp_path) == []
