"""The examples of files/gateway/README.md run unchanged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.conftest import Stack

PAGE = Path(__file__).parents[2] / "files" / "gateway" / "README.md"
EXAMPLE = re.compile(r"<!-- runs: ([^>]+) -->\n\n```(python|bash)\n(.*?)```", re.DOTALL)
NAMES = {"gpt-oss-20b": "llama", "nomic-embed-text-v2-moe": "nomic", "bge-reranker-large": "bge"}


def examples() -> Iterator[object]:
    """Yields each example with its required packages, under their names and its number."""
    for number, (needs, language, text) in enumerate(EXAMPLE.findall(PAGE.read_text("utf-8"))):
        yield pytest.param(needs.split(), language, text, id=f"{needs.split()[0]}-{number}")


def python_with(needs: list[str]) -> str:
    """Returns the Python of the first environment of `make clients` that has these packages."""
    own = Path(sys.executable).parents[1]
    for environment in (own, own.with_name("clients-frameworks"), own.with_name("clients-openai-2")):
        (packages,) = environment.glob("lib/python*/site-packages")
        if all((packages / need.replace(".", "/")).exists() for need in needs):
            return str(environment / "bin" / "python")
    raise AssertionError(f"no environment has {', '.join(needs)}: type `make clients`, which installs them")


@pytest.mark.parametrize(("needs", "language", "text"), list(examples()))
def test_an_example_runs(stack: Stack, needs: list[str], language: str, text: str, tmp_path: Path) -> None:
    for name, ours in NAMES.items():
        text = text.replace(name, ours)
    file = tmp_path / "example"
    file.write_text(text)
    environment = {**os.environ, "ENGINEHOUSE_URL": stack.url, "ENGINEHOUSE_KEY": stack.key}
    words = [python_with(needs), str(file)] if language == "python" else ["bash", "-eu", str(file)]
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and stack.triton.requests
