"""A host with one server for the role's tests: its plan, and its answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from deploy.slices.host import MemorySlice, ModelSlice, WeightsSlice
from roles.triton.defaults import Defaults
from roles.triton.operations import texts
from roles.triton.release import release_of
from tests.roles.slices import SERVER, a_slice

WEIGHTS = WeightsSlice(
    model="embed", repository="a/b", revision="1" * 40, directory="", fetch_on="host", files=("*",), size_mib=1
)
EMBEDDER = ModelSlice(
    name="embed", kind="embedder", path="python", reason="", architecture="BertModel", weights=WEIGHTS,
    memory=MemorySlice(weights_mib=1, context_mib=1, workspace_mib=1, kv_cache_mib=0), kv_cache_tokens=0, dimensions=8,
    max_batch_size=8, max_queue_size=8, max_queue_delay_microseconds=0, decoupled=False, settings={"device": "cuda:0"},
)  # fmt: skip
MAIN = replace(SERVER, models=(EMBEDDER,))
MINE = a_slice(servers=(MAIN,))
WANTED = release_of(MAIN, Defaults())
RELEASE = WANTED.id

PROBED = "key=abc\nproven"


def placed() -> str:
    """The answer of a host with the right programs and units."""
    return "\n".join(f"{text.wanted_fact} {text.path}" for text in texts([WANTED]))


def serving(current: str = RELEASE, active: str = "active", enabled: str = "enabled", more: str = "") -> str:
    """A host's answer about its servers."""
    return (
        f"release={RELEASE}\nserver=main\ncurrent={current}\nprevious=\n"
        f"active={active}\nenabled={enabled}\nwith_docker=yes\nswap=inactive\n{more}"
    )


def host_answers(seen: str = "", probed: str = "key=abc", served: str = "") -> dict[str, Any]:
    """A host's answers, by a part of each question."""
    answers = {"%n %a %U": seen, "command -v nvidia-ctk": probed, 'echo "server=$s"': served}
    return answers | {"/verdict.json": json.dumps({"release": RELEASE, "asked": "another's", "sentence": "it serves"})}
