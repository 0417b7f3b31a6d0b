"""The catalog agrees with a second reading of TensorRT-LLM's source, from which the stand-ins' `--help` is made."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal import upstream_flags

ROOT = Path(__file__).parents[2]
READ: dict[str, Any] = json.loads((ROOT / "rehearsal/llmapi/upstream-flags.json").read_text("utf-8"))
CATALOG: dict[str, Any] = json.loads((ROOT / "deploy/catalog/data/trtllm-flags.json").read_text("utf-8"))
PAIRS = [(release, program) for release, programs in READ.items() for program in programs if program != "source"]
# The second reading is two weeks older than the release, or the catalog is open about what it does not know.
DIFFERS = {
    ("0.11.0", "--attention_qk_half_accumulation"): "gone by the release",
    ("0.11.0", "--lora_target_modules"): "mlp_router came in between",
    ("0.11.0", "--max_seq_len"): "its default came to be deduced in between",
    ("0.14.0.dev2024100800", "--log_level"): "the catalog's note: trace may be absent",
    ("0.17.0.dev2024121700", "--log_level"): "the catalog's note: trace may be absent",
}
SOURCE = """
LEVELS = {"info": object(), "debug": object()}

class Config:
    size: int = 8

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", "--length", type=int, default=Config.size)
    parser.add_argument("--level", default="info", choices=LEVELS.keys())
    parser.add_argument("--kind", default=argparse.SUPPRESS, type=enum(Kind))
    parser.add_argument("--mode", type=int, default=compute())
    group = parser.add_argument_group("More")
    group.add_argument("--fast", action="store_true", default=False)
    group.add_argument("--" + computed)
"""


def of_catalog(release: str, program: str) -> dict[str, Any]:
    """The catalog's row of the same release and program."""
    if program == "trtllm-build":
        return dict(CATALOG[release])
    row = CATALOG["_quantize.py"] if program == "quantize.py" else CATALOG["_convert_checkpoint"][program.split()[-1]]
    return dict(row[release])


def facts(flag: dict[str, Any]) -> dict[str, Any]:
    """The facts of a flag that both readings have, in a common form."""
    default = "unset" if flag.get("suppressed") else flag.get("default", False if flag["type"] == "flag" else None)
    choices = flag.get("choices") and list(dict.fromkeys(flag["choices"]))
    parsed = {"type": flag["type"], "default": default, "choices": choices}
    return parsed | {word: flag.get(word) for word in ("aliases", "nargs", "required")}


@pytest.mark.parametrize(("release", "program"), PAIRS)
def test_the_catalog_agrees_with_the_second_reading(release: str, program: str) -> None:
    """Names are compared one by one; choices only if both readings have any."""
    upstream, catalog = READ[release][program], of_catalog(release, program)
    wrong = dict.fromkeys(upstream.keys() ^ catalog.keys(), "in one reading only")
    for flag in upstream.keys() & catalog.keys():
        read_upstream, in_catalog = facts(upstream[flag]), facts(catalog[flag])
        unread = {"choices"} if not (read_upstream["choices"] and in_catalog["choices"]) else set()
        unread |= set(upstream[flag].get("unread", []))
        if differing := {
            word for word in read_upstream if word not in unread and read_upstream[word] != in_catalog[word]
        }:
            wrong[flag] = ", ".join(sorted(differing))
    assert {flag: why for flag, why in wrong.items() if (release, flag) not in DIFFERS} == {}


def test_at_least_three_releases_were_read_twice() -> None:
    assert set(READ) == {"0.11.0", "0.13.0.dev2024090300", "0.14.0.dev2024100800", "0.17.0.dev2024121700", "1.2"}


def test_flags_are_read_from_a_syntax_tree_without_running_it() -> None:
    tree = ast.parse(SOURCE)
    assert upstream_flags.arguments(tree, upstream_flags.Names(tree)) == {
        "--size": {"type": "int", "default": 8, "aliases": ["--length"]},
        "--level": {"type": "str", "default": "info", "choices": ["info", "debug"]},
        "--kind": {"type": "str", "suppressed": True},
        "--mode": {"type": "int", "unread": ["default"]},
        "--fast": {"type": "flag", "default": False, "group": "More"},
    }
