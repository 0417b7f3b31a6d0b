"""Slips of a single number in a checkpoint that was typed by hand: refused if its files are known or it is absurd."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.models.config_json import checkpoint_of
from deploy.spec import LLM, Checkpoint, Embedder, Model, Reranker, Weights
from tests.unit.published import COMMIT, ENTRIES, locked
from tests.unit.samples import AROUND, MACHINE, main, plan, refusals

SERVED = json.loads(Path(__file__).with_name("published_served.json").read_text(encoding="utf-8"))
DENSE, OF_EXPERTS, OF_LATENT = "Qwen/Qwen3-4B-Thinking-2507", "x/qwen3-30b-a3b", "x/deepseek-r1"
ENCODER = "intfloat/multilingual-e5-small"
ALL: dict[str, dict[str, Any]] = {**{f"x/{name}": entry for name, entry in ENTRIES.items()}, **SERVED}
TYPED = "numbers-of-other-files"
APART, IMPOSSIBLE, BILLIONS = "numbers-apart", "impossible-shape", "unbelievable-number"

SLIPS: list[tuple[str, dict[str, Any], str]] = [
    # model, slip, refusal where nothing is known of its files ("" if the number is possible, and a note says so)
    (DENSE, {"layers": 63}, APART),
    (DENSE, {"layers": 3}, APART),
    (DENSE, {"layers": 35}, ""),
    (DENSE, {"hidden": 256}, APART),
    (DENSE, {"hidden": 25_600}, APART),
    (DENSE, {"hidden": 2650}, ""),
    (DENSE, {"heads": 8, "kv_heads": 32}, IMPOSSIBLE),
    (DENSE, {"kv_heads": 0}, ""),
    (DENSE, {"kv_heads": 4}, ""),
    (DENSE, {"head_dim": 0}, ""),
    (DENSE, {"head_dim": 1280}, APART),
    (DENSE, {"intermediate": 97_280}, APART),
    (DENSE, {"intermediate": 2560}, APART),
    (DENSE, {"vocabulary": 15_193}, ""),
    (DENSE, {"positions": 2_621_440}, ""),
    (DENSE, {"positions": 4096}, ""),
    (DENSE, {"parameters": 40_000_000_000}, APART),
    (DENSE, {"parameters": 8_000_000_000}, APART),
    (DENSE, {"parameters": 400_000_000}, APART),
    (DENSE, {"parameters": 4}, BILLIONS),
    (DENSE, {"architecture": "LlamaForCausalLM"}, ""),
    (DENSE, {"quantisation": "fp8"}, ""),
    (DENSE, {"weights_mib": 80}, IMPOSSIBLE),
    (DENSE, {"weights_mib": 800}, IMPOSSIBLE),
    (DENSE, {"dense_intermediate": 4096}, ""),
    (DENSE, {"q_lora_rank": 1536}, ""),
    (OF_EXPERTS, {"experts": 12}, APART),
    (OF_EXPERTS, {"active_experts": 1}, ""),
    (OF_EXPERTS, {"intermediate": 6144}, ""),
    (OF_EXPERTS, {"parameters": 300_000_000_000}, APART),
    (OF_EXPERTS, {"experts": 0, "active_experts": 0}, APART),
    (OF_LATENT, {"intermediate": 18_432}, ""),
    (OF_LATENT, {"kv_lora_rank": 1536}, ""),
    (OF_LATENT, {"qk_rope_head_dim": 128}, ""),
    (ENCODER, {"hidden": 1024}, APART),
    (ENCODER, {"layers": 24}, ""),
    (ENCODER, {"positions": 8194}, ""),
    (ENCODER, {"intermediate": 4096}, ""),
    (ENCODER, {"parameters": 118}, BILLIONS),
]


def shape(name: str) -> Checkpoint:
    entry = ALL[name]
    return checkpoint_of(entry["config"], sum(entry["elements"].values()), name, entry["files"])


def judged(name: str, slip: dict[str, Any], *, is_known: bool) -> tuple[list[str], list[str]]:
    """Kinds of all refusals, and the notes, of a model whose numbers are typed with this slip."""
    files = locked(name, ALL)
    weights = Weights(repository=name, revision=COMMIT, files=files.fetched)
    typed = replace(shape(name), **slip)
    model: Model = LLM(name="mine", checkpoint=typed, weights=weights, max_seq_len=4096)
    if name == ENCODER:
        model = Embedder(name="mine", checkpoint=typed, weights=weights)
    around = replace(AROUND, locked={name: files} if is_known else {})
    gpus = 8 if name == OF_LATENT else 1
    data = {"machine": replace(MACHINE, gpu="h200-141", gpus=gpus), **main(model, gpus=tuple(range(gpus)))}
    if problems := refusals(around=around, **data):
        return [problem.kind for problem in problems], []
    return [], list(plan(around=around, **data).warnings)


@pytest.mark.parametrize(("name", "slip", "absurd"), SLIPS, ids=lambda value: str(value))
def test_a_slip_is_refused_beside_its_files_and_if_it_is_absurd(name: str, slip: dict[str, Any], absurd: str) -> None:
    refused, _ = judged(name, slip, is_known=True)
    assert refused and {TYPED, absurd} & set(refused)
    refused, notes = judged(name, slip, is_known=False)
    assert absurd in refused if absurd else any("nobody compared them" in note for note in notes)


@pytest.mark.parametrize("name", [DENSE, OF_EXPERTS, OF_LATENT, ENCODER])
def test_the_right_numbers_are_planned(name: str) -> None:
    assert judged(name, {}, is_known=True)[0] == []


def test_positions_of_the_catalog_may_be_fewer_than_those_of_the_files() -> None:
    """The catalog has the 32,768 of the model card, and config.json has 40,960: nobody typed a slip."""
    name = "Qwen/Qwen3-Reranker-0.6B"
    files = replace(locked("qwen3-reranker-0.6b"), repository=name)
    assert files.config["max_position_embeddings"] == 40_960
    assert refusals(around=replace(AROUND, locked={name: files}), **main(Reranker(name, dtype="bfloat16"))) == []


@pytest.mark.parametrize("packed", [8, 2])
def test_packed_numbers_without_a_named_format_are_refused(packed: int) -> None:
    """Older repositories of GPTQ and AWQ name their format in a file of its own, which no loader here reads."""
    entry = ALL[DENSE]
    table = 151_936 * 2560
    elements = {"I32": (sum(entry["elements"].values()) - table) // packed, "F16": table}
    files = locked(DENSE, {DENSE: entry | {"elements": elements}})
    (problem,) = refusals(around=replace(AROUND, locked={DENSE: files}), **main(LLM(DENSE)))
    assert "its files hold fewer numbers than its network has" in problem.problem
