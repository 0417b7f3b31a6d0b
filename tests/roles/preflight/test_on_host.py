"""Weights that are on the host already: the question runs on real directories, and each mistake has its own refusal."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.refusals.errors import Refusal
from deploy.slices.on_host import OnHostSlice
from deploy.spec import Weights
from roles._pyinfra.facts import HostFacts, script
from roles.preflight import on_host
from tests.unit.samples import GPT_OSS, main, plan, sources

SLICE = plan(*sources(**main(replace(GPT_OSS, weights=Weights.on_host("/mnt/models/gpt-oss-20b"))))).slices[0]
MIB, COMMIT = 2**20, "c" * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve MiB of a Llama in two shards, as `hf download --local-dir` leaves them."""
    place = tmp_path / "llama"
    note = place / ".cache/huggingface/download/config.json.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"{COMMIT}\n1234\n1.0\n")
    (place / "config.json").write_text(
        json.dumps({"vocab_size": 5, "architectures": ["LlamaForCausalLM", "x"]}, indent=1)
    )
    (place / "tokenizer.json").write_text("{}")
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": shards[0], "b": shards[1]}}))
    for shard in shards:
        (place / shard).write_bytes(bytes(6 * MIB))
    return place


def expected(folder: Path, **changes: Any) -> OnHostSlice:
    """The files of the folder, as a plan expects them."""
    files = OnHostSlice(
        model="llama",
        path=str(folder),
        required=("config.json", "tokenizer.json"),
        architecture="LlamaForCausalLM",
        size_mib=12,
        revision=COMMIT,
    )
    return replace(files, **changes)


def judged(files: OnHostSlice, bare: bool = True) -> list[Refusal]:
    """The refusals after the question was asked of this machine; as the tests' own user, unless `bare` is false."""
    mine = replace(SLICE, on_host=(files,))
    command = script(*on_host.fact_commands(mine))
    command = command.replace(on_host.AS_SERVER, "env") if bare else command
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    return list(on_host.on_host(HostFacts.parse(ran.stdout.splitlines()), mine))


def test_complete_files_are_accepted(folder: Path) -> None:
    (folder / "lost+found").mkdir(mode=0o000)
    assert judged(expected(folder)) == []
    assert judged(expected(folder, size_mib=0, architecture="", revision="")) == []


def linked(folder: Path) -> None:
    """Links the files as in the hub's own cache: names that lead to files beside the directory."""
    (folder / "tokenizer.json").rename(folder.parent / "blob")
    (folder / "tokenizer.json").symlink_to("../blob")


MISTAKES: dict[str, tuple[Callable[[Path], object], dict[str, Any], str]] = {
    "no directory": (lambda folder: folder.rename(folder.parent / "other"), {}, "is no directory"),
    "a file": (lambda folder: (folder / "config.json").rename(folder / "config.jsn"), {}, "lacks 'config.json'"),
    "a shard": (lambda folder: (folder / "model-00002-of-00002.safetensors").unlink(), {}, "lacks 'model-00002"),
    "no weights": (lambda folder: [path.unlink() for path in folder.glob("model*")], {}, "lacks *.safetensors"),
    "links": (linked, {}, "has links that lead out of it"),
    "another model": (lambda folder: None, {"architecture": "Qwen3ForCausalLM"}, "holds another model"),
    "another commit": (lambda folder: None, {"revision": "d" * 40}, "holds another commit"),
    "other weights": (lambda folder: None, {"size_mib": 24}, "holds other weights"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_each_mistake_is_refused(case: str, folder: Path) -> None:
    spoil, changes, words = MISTAKES[case]
    spoil(folder)
    (problem,) = judged(expected(folder, **changes))
    assert problem.kind == "weights-on-host" and words in problem.problem
    assert problem.attempt and {"found", "wanted"} <= problem.facts.keys()


def test_links_inside_the_directory_are_files(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "tokenizer.json").rename(folder / "real" / "tokenizer.json")
    (folder / "tokenizer.json").symlink_to("real/tokenizer.json")
    assert judged(expected(folder)) == []


def test_files_that_the_server_s_user_cannot_read_are_named(folder: Path) -> None:
    """A test run by root asks as another user of this machine, which stands in for the server's user."""
    if os.getuid() == 0:
        for above in folder.parents:
            above.chmod(above.stat().st_mode | 0o011) if str(above).startswith("/tmp/") else None
        folder.chmod(0o755)
        (folder / "tokenizer.json").chmod(0o600)
        (problem,) = judged(expected(folder), bare=False)
    else:
        (folder / "tokenizer.json").chmod(0o000)
        (problem,) = judged(expected(folder))
    assert "cannot be read" in problem.problem and "tokenizer.json" in str(problem.facts["found"])


def test_a_silent_file_system_is_reported(folder: Path) -> None:
    facts = HostFacts(values={"on-host-0": "ended 124"})
    (problem,) = on_host.on_host(facts, replace(SLICE, on_host=(expected(folder),)))
    assert "did not answer" in problem.problem


@pytest.mark.parametrize("path", ["/mnt/a b", "/mnt/$(id)", "/mnt/a;id", "/mnt/x'y"])
def test_a_path_stays_one_word_in_the_question(path: str) -> None:
    (command,) = on_host.fact_commands(replace(SLICE, on_host=(expected(Path(path)),)))
    assert shlex.quote(path) in command
