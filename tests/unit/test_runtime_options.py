"""Options of `vllm serve` and `trtllm-serve`: the catalog against a second reading, start lines against stand-ins."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.catalog.runtimes import RUNTIMES, RuntimeRow
from rehearsal import runtime_options
from rehearsal.triton_image import RUNTIME_STAND_INS
from tests.roles.triton.llm_servers import EVERY, runtime_of, server_with

PACKAGES = RUNTIME_STAND_INS / "packages"
READ: dict[str, Any] = json.loads((PACKAGES / "llm_stand_in/options.json").read_text("utf-8"))
ROWS = {f"{row.runtime} {row.version}": row for row in RUNTIMES.values()}
VLLM_SOURCES = {
    "engine/arg_utils.py": """
def add(parser):
    parser.add_argument("--cache-dtype", **cache["dtype"])
    group.add_argument("--prefix-caching", "-p", **{**cache["prefix_caching"], "default": None})
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--lora", action=argparse.BooleanOptionalAction)
    parser.add_argument("--" + computed)
""",
    "entrypoints/openai/cli_args.py": """
class FrontendArgs:
    listen_port: int = 8000
    no_docs: bool | None = None

class Elsewhere:
    hidden: int = 1
""",
    "config/cache.py": "class Cache:\n    dtype: str = 'auto'\n    prefix_caching: bool = True\n",
}
SERVE_SOURCE = """
@click.command("serve")
@click.option("--size", "--length", type=int)
@click.option("--fast", is_flag=True)
@click.option("--tell/--no-tell", default=True)
def serve(size, fast, tell): ...

@click.option("--elsewhere")
def embeddings(): ...
"""


@pytest.fixture
def program() -> Iterator[Any]:
    """The stand-in's own parser of a start line."""
    sys.path.insert(0, str(PACKAGES))
    try:
        from llm_stand_in import program as module

        yield module
    finally:
        sys.path.remove(str(PACKAGES))
        for name in [name for name in sys.modules if name.startswith("llm_stand_in")]:
            del sys.modules[name]


@pytest.mark.parametrize("release", READ)
def test_every_flag_of_the_catalog_is_an_option_of_the_second_reading(release: str) -> None:
    """A catalog flag with a `--no-` form is a switch in the second reading."""
    row, options = ROWS[release], READ[release]["options"]
    assert sorted(row.flags - set(options)) == []
    assert {options[flag] for flag in row.switches} <= {"switch"}


def test_the_releases_without_a_second_reading_are_known() -> None:
    """The releases are pre-releases, of which only the option table was read."""
    assert set(ROWS) - set(READ) == {"trtllm-serve 1.3.0rc29"}


@pytest.mark.parametrize(("runtime", "image"), EVERY[:2])
def test_the_stand_in_takes_every_start_line_that_a_plan_makes(runtime: str, image: str, program: Any) -> None:
    slice_ = runtime_of(server_with(runtime, image))
    chosen = program.read(runtime, [*slice_.program[1:], *slice_.arguments])
    assert str(chosen.model).startswith("/var/lib/enginehouse/weights/llama-3.1-8b-instruct/")
    assert chosen.options["--port"] == "8010"


def test_a_newer_release_s_option_ends_an_older_program(program: Any) -> None:
    """The messages are click's and argparse's."""
    with pytest.raises(program.Refused, match=r"No such option: --no-telemetry"):
        program.read("trtllm-serve", ["serve", "/weights", "--no-telemetry"])
    with pytest.raises(program.Refused, match=r"unrecognized arguments: --no-port"):
        program.read("vllm", ["serve", "/weights", "--no-port"])
    with pytest.raises(program.Refused, match=r"argument --port: expected one argument"):
        program.read("vllm", ["serve", "/weights", "--port"])


def test_options_are_read_from_the_source_of_both_programs(tmp_path: Path) -> None:
    for name, text in VLLM_SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "serve.py").write_text(SERVE_SOURCE)
    assert runtime_options.options_of_vllm(tmp_path) == {
        "--cache-dtype": "value",
        "--listen-port": "value",
        "--lora": "switch",
        "--no-docs": "switch",
        "--prefix-caching": "switch",
        "--quiet": "flag",
    }
    assert runtime_options.options_of_serve(tmp_path / "serve.py") == {
        "--fast": "flag",
        "--length": "value",
        "--no-tell": "flag",
        "--size": "value",
        "--tell": "flag",
    }


@pytest.mark.parametrize("row", ROWS.values(), ids=str)
def test_no_start_line_opens_internal_endpoints_to_clients(row: RuntimeRow) -> None:
    """Endpoints for weights, memory and profiles need a developer mode, which no plan turns on."""
    image = row.image
    words = " ".join(runtime_of(server_with(row.runtime, image)).arguments)
    assert "sleep" not in words and "profiler" not in words and "trust" not in words
