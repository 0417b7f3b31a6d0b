"""An error in the catalog of flags is noticed when the build asks the image, which does not depend on the catalog."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from host.build import flags
from rehearsal import triton_root

ROOT = Path(__file__).parents[3]
ROWS = "deploy/catalog/data/trtllm-flags.json"
# A checkout whose image and plan are both made from the catalog as it lies there: every flag of it, with a value.
PLANNED_AND_MADE = """
import io, json, tarfile
from deploy.catalog.flags import build_flags
from rehearsal import triton_image, triton_root

tarfile.open(fileobj=io.BytesIO(triton_image.stand_in_tar(triton_root.SITE))).extractall("image", filter="tar")
argv = ["trtllm-build"]
for flag in build_flags("1.2.1").flags.values():
    argv += [flag.name, *([] if flag.is_switch else [str(flag.choices[-1] if flag.choices else 1)])]
print(json.dumps(argv))
"""
HELP = "from flags import build_parser; build_parser().print_help()"


def checked(checkout: Path, change: Callable[[dict[str, Any]], None]) -> list[str]:
    """Problems that the build reports after a change to the checkout's catalog."""
    for folder in ("deploy", "rehearsal"):
        shutil.copytree(ROOT / folder, checkout / folder, ignore=shutil.ignore_patterns("__pycache__"))
    catalog = json.loads((checkout / ROWS).read_text())
    change(catalog["1.2"])
    (checkout / ROWS).write_text(json.dumps(catalog))
    planned = json.loads(python(checkout, checkout, PLANNED_AND_MADE))
    text = python(checkout, checkout / "image" / triton_root.SITE / "tensorrt_llm/stand_in", HELP)
    return list(flags.problems(planned, text, "row 1.2"))


def python(checkout: Path, path: Path, script: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(path), "COLUMNS": "120"}
    words = [sys.executable, "-c", script]
    return subprocess.run(words, cwd=checkout, env=environment, check=True, capture_output=True, text=True).stdout


def renamed(row: dict[str, Any]) -> None:
    row["--max_num_token"] = row.pop("--max_num_tokens")


def with_a_choice_too_many(row: dict[str, Any]) -> None:
    row["--gpt_attention_plugin"]["choices"].append("fp8")


def with_a_value_for_a_switch(row: dict[str, Any]) -> None:
    row["--strip_plan"] = {"type": "str", "default": "disable", "choices": ["enable"], "kind": "build"}


def test_the_catalog_as_it_is_has_nothing_the_image_does_not_take(tmp_path: Path) -> None:
    assert checked(tmp_path, lambda row: None) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            renamed,
            "trtllm-build: the image does not accept `--max_num_token 1`\n  catalog  row 1.2\n"
            "  image    knows 71 flags, and not --max_num_token; the nearest is --max_num_tokens",
        ),
        (
            with_a_choice_too_many,
            "trtllm-build: the image does not accept `--gpt_attention_plugin fp8`\n  catalog  row 1.2\n"
            "  image    --gpt_attention_plugin takes auto, float16, float32, bfloat16, int32, disable, and not fp8",
        ),
        (
            with_a_value_for_a_switch,
            "trtllm-build: the image does not accept `--strip_plan enable`\n  catalog  row 1.2\n"
            "  image    --strip_plan is a switch and takes no value",
        ),
    ],
)
def test_an_error_in_the_catalog_is_found_by_asking_the_image(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    assert checked(tmp_path, change) == [problem]
