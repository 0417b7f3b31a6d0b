"""The table of README on what fits a card has the planner's numbers.

`GOLDEN=write pytest tests/unit/test_readme.py` rewrites it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.__main__ import main
from deploy.planning.fit import Fit, fit_of
from deploy.refusals.errors import Refusal
from deploy.reports.plan import memory_parts
from deploy.spec import LLM, Calibration, KVCache
from tests.unit.samples import AROUND, EMBEDDER, GPT_OSS, LLAMA, RERANKER, pinned

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(
    r"(?<=<!-- what fits: tests/unit/test_readme.py writes this -->\n)(.*?)(?=<!-- end of what fits -->)", re.S
)

TEXTS = Calibration(directory="calibration/cnn_dailymail")
FP8 = {"path": "engine", "precision": "fp8", "calibration": TEXTS, "kv_cache": KVCache(dtype="fp8")}
AWQ = {"path": "engine", "precision": "int4_awq", "calibration": TEXTS}


def llm(checkpoint: str, **changes: object) -> LLM:
    """A checkpoint of the catalog, with the same name."""
    return replace(LLAMA, name=checkpoint, checkpoint=checkpoint, weights=pinned(checkpoint), **changes)


ROWS = (
    (RERANKER, EMBEDDER, GPT_OSS),
    (llm("gpt-oss-120b"),),
    (RERANKER, EMBEDDER, llm("llama-3.1-8b-instruct")),
    (RERANKER, EMBEDDER, llm("llama-3.1-8b-instruct", **FP8)),
    (llm("qwen3-8b"),),
    (llm("mixtral-8x7b-instruct"),),
    (llm("llama-3.3-70b-instruct-fp8", kv_cache=KVCache(dtype="fp8")),),
    (llm("llama-3.1-70b-instruct", **AWQ),),
)


def table() -> str:
    """The whole table in Markdown."""
    titles = (
        "LLM",
        "path, weights, cache",
        "weights",
        "contexts, workspace",
        "for the cache",
        "users at 8,192",
        "at 32,768",
    )
    head = f"| {' | '.join(titles)} |\n| --- | --- |{' ---: |' * 5}\n"
    return head + "".join(row(models) for models in ROWS)


def row(models: tuple[object, ...]) -> str:
    """A row of the table: an LLM with the models beside it, or the reason that it does not fit."""
    model = models[-1]
    assert isinstance(model, LLM)
    name = f"{model.name}{' + reranker, embedder' if len(models) > 1 else ''}"
    try:
        fit = fit_of("h100-80", models, "26.07", AROUND)
    except Refusal as refusal:
        return f"| {name} | does not fit: {refusal.problem.split(': ', 1)[1]} | | | | | |\n"
    return f"| {name} | {how(fit)} | {numbers(fit)} |\n"


def how(fit: Fit) -> str:
    """Path and precisions, as in the plan."""
    served = fit.plan.slices[0].servers[0].models[-1]
    return f"{served.path}, {served.precision}, {served.kv_dtype}"


def numbers(fit: Fit) -> str:
    """MiB and users; the cache gets all free memory besides its declared size."""
    host = fit.plan.slices[0]
    parts = memory_parts(host.servers[0], 0, host)
    left = parts["key/value cache"] + parts["free"]
    users = (f"{fit.users[length]:,}" for length in (8192, 32_768))
    return " | ".join([f"{parts['weights']:,}", f"{parts['contexts and workspace']:,}", f"{left:,}", *users])


def test_the_readmes_table_matches_the_planner() -> None:
    """The table is compared literally."""
    text = README.read_text("utf-8")
    if os.environ.get("GOLDEN") == "write":
        README.write_text(BLOCK.sub(lambda _: f"\n{table()}\n", text), "utf-8")
    written = BLOCK.search(README.read_text("utf-8"))
    assert written
    assert written.group(1) == f"\n{table()}\n"


@pytest.mark.parametrize("models", ROWS, ids=lambda models: " + ".join(model.name for model in models))
def test_each_row_matches_the_output_of_its_fit_command(models: tuple[LLM, ...]) -> None:
    """The command line has the model's name, and the row's path, weights and cache."""
    model = models[-1]
    words = [str(row_model.checkpoint) for row_model in models]
    for option, value in {"path": model.path, "precision": model.precision, "cache": model.kv_cache.dtype}.items():
        words += [f"--{option}", value] if value != "auto" else []
    answer = CliRunner().invoke(main, ["fit", "h100-80", *words, "--json"])
    line = next(line for line in table().splitlines() if line == row(models).strip())
    if answer.exit_code:
        assert "does not fit" in line
        return
    users = json.loads(answer.stdout)["users"]
    assert f"| {users['8192']:,} | {users['32768']:,} |" in line


@pytest.mark.parametrize("word", ["engine", "PyTorch", "vLLM"])
def test_the_choice_of_a_path_is_explained(word: str) -> None:
    """The explanation is in a separate section, beside the inventories."""
    page = README.parent / "inventories/README.md"
    section = page.read_text("utf-8").split("## Engine, PyTorch backend or vLLM")[1].split("\n## ")[0]
    assert word in section
