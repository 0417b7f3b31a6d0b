"""A unit waits for directories that its host mounts, and units without such directories are unchanged."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.slices.host import ServerSlice
from deploy.spec import Gateway, Weights
from roles.triton.defaults import Defaults
from roles.triton.release import release_of
from roles.triton.times import unit_settings
from roles.triton.waiting import WAIT_SECONDS, awaited, wait_settings
from tests.unit.samples import GPT_OSS, RERANKER, main, plan, sources

PLACE = "/mnt/models/gpt-oss-20b"
MODEL = replace(GPT_OSS, weights=Weights.on_host(PLACE))


def server(*models: Any, **data: Any) -> ServerSlice:
    return plan(*sources(**main(*models), **data)).slices[0].servers[0]


def test_the_unit_waits_for_the_files_of_each_directory() -> None:
    text = release_of(server(RERANKER, MODEL), Defaults()).unit_settings.content
    (line,) = (line for line in text.splitlines() if line.startswith("ExecStartPre="))
    assert shlex.split(line.removeprefix("ExecStartPre="))[:2] == ["/bin/sh", "-c"]
    assert f"test -e {PLACE}/config.json" in line
    assert text.count("[Service]") == 1


def test_five_starts_last_longer_than_the_window_that_counts_them() -> None:
    assert 5 * WAIT_SECONDS > 2 * 3600


def test_a_server_without_a_model_directory_keeps_its_unit() -> None:
    mine = server(RERANKER, GPT_OSS)
    assert release_of(mine, Defaults()).unit_settings.content == unit_settings(mine, 0)


def test_the_release_is_the_same_with_and_without_the_wait() -> None:
    """The drop-in is not part of a release's id, so no server is swapped for it."""
    before = release_of(server(RERANKER, MODEL), Defaults())
    assert "ExecStartPre" in before.unit_settings.content
    assert not any(b"until test -e" in content for content in before.files.values())


def test_an_llm_beside_triton_waits_in_its_own_unit() -> None:
    beside = replace(MODEL, runtime="vllm", image="vllm/vllm-openai:v0.26.0")
    release = release_of(server(RERANKER, beside, gateway=Gateway()), Defaults())
    assert release.llm_settings and f"test -e {PLACE}/config.json" in release.llm_settings.content
    assert "ExecStartPre" not in release.unit_settings.content


def test_the_line_ends_as_soon_as_the_file_is_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    text = wait_settings(server(RERANKER, MODEL), [f"{tmp_path}/config.json"])
    (line,) = (line for line in text.splitlines() if line.startswith("ExecStartPre="))
    ran = subprocess.run(
        shlex.split(line.removeprefix("ExecStartPre=")), capture_output=True, text=True, timeout=20, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "")


def test_every_directory_is_awaited_once() -> None:
    mine = server(RERANKER, MODEL)
    assert awaited([*mine.models, *mine.models]) == (f"{PLACE}/config.json",)
