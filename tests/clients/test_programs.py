"""Client libraries of Python and npm, unmodified: right answers to their calls, or refusals that the table explains."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.clients.conftest import Stack
from tests.clients.speaking import speaking as speaking
from tests.clients.table import CLIENTS, NPM, REFUSALS, ROOT, Client, Lines, calls_of, is_right, rows
from tests.gateway.triton import vector

PROGRAMS, CACHE, PAGE = Path(__file__).parent / "programs", ROOT / ".cache", Path(__file__).parent / "README.md"
VECTORS = [vector(text) for text in ("the cat", "a mat")]
SECONDS, AT_ONCE = 600, 2
QUIET = {
    **dict.fromkeys(("DO_NOT_TRACK", "OTEL_SDK_DISABLED", "CREWAI_DISABLE_TELEMETRY"), "true"),
    "ANONYMIZED_TELEMETRY": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "true",
}
"""Variables that keep clients from reporting their use to their makers, and from fetching prices."""
TABLE = re.compile(r"(?<=<!-- table: clients -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)


def command(program: str, environment: str) -> list[str]:
    """Returns the command that runs a program in its environment."""
    if environment == NPM:
        for file in (PROGRAMS / "npm").glob("*.mjs"):  # beside the packages: node looks for them there
            shutil.copy(file, CACHE / "clients-npm")
        return [str(Path(sys.executable).with_name("node")), str(CACHE / "clients-npm" / f"{program}.mjs")]
    python = CACHE / f"clients-{environment}" / "bin" / "python" if environment else Path(sys.executable)
    return [str(python), str(PROGRAMS / f"{program}.py")]


def printed(stack: Stack, program: str, environment: str, folder: Path) -> dict[str, dict[str, object]]:
    """Returns the JSON lines of a program by the names of its calls."""
    words = command(program, environment)
    assert Path(words[0]).exists(), f"{words[0]} is missing: type `make clients`, which installs it"
    folder.mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), **QUIET}
    variables |= {"ENGINEHOUSE_URL": stack.url, "ENGINEHOUSE_KEY": stack.key}
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, timeout=SECONDS)
    read = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"call":')]
    assert done.returncode == 0 and read, done.stderr[-4000:]
    return {line["call"]: line for line in read}


@pytest.fixture(scope="module")
def lines(speaking: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lines]:
    """Yields the lines of all programs; most of their time goes into importing packages."""
    folder = tmp_path_factory.mktemp("programs")
    places = list(dict.fromkeys((client.program, client.environment) for client in CLIENTS))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        work = {place: pool.submit(printed, speaking, *place, folder / "-".join(place)) for place in places}
        yield {place: future.result() for place, future in work.items()}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.label)
def test_a_client_gets_right_answers_or_an_explained_refusal(lines: Lines, client: Client) -> None:
    calls = calls_of(client, lines)
    assert calls
    for call, line in calls.items():
        if (client.label, call) in REFUSALS:
            assert REFUSALS[client.label, call][0] in str(line.get("error")), line
        else:
            assert "answer" in line and is_right(call, line["answer"], VECTORS), line


def test_every_explained_refusal_belongs_to_a_call(lines: Lines) -> None:
    calls = {(client.label, call) for client in CLIENTS for call in calls_of(client, lines)}
    assert set(REFUSALS) <= calls


def test_the_page_has_the_table(lines: Lines, capsys: pytest.CaptureFixture[str]) -> None:
    table, page = "\n".join(rows(lines)), PAGE.read_text("utf-8")
    with capsys.disabled():
        print(f"\n{table}\n")
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(TABLE.sub(lambda _: table, page), "utf-8")
    (written,) = TABLE.findall(PAGE.read_text("utf-8"))
    assert written == table, "type `GOLDEN=write make clients`, and read the diff"
