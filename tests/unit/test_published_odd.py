"""Files of a hub are untrusted: for any config.json and lock, a plan is made or refused."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.io.model_lock import read_lock
from deploy.models.config_json import architecture_of, kept
from deploy.models.kinds import fetched, kind_problem
from deploy.planning.fit import FitOptions, fit_of
from deploy.refusals.errors import Refusal
from tests.unit.published import ENTRIES, locked
from tests.unit.samples import AROUND
from tests.unit.test_published import VERDICTS

ODD: tuple[Any, ...] = (
    *(None, -1, 0, 1, 2, True, 3.5, 1e308, float("nan"), float("inf"), 10**30, 10**400),
    *("", "x", "128", "fp8", [], {}, [1], ["x", 7], {"a": 1}),
)
KEYS = (
    *("num_experts", "kv_lora_rank", "quantization_config", "text_config", "auto_map", "n_routed_experts"),
    *("moe_intermediate_size", "intermediate_size", "v_head_dim", "architectures", "num_key_value_heads", "head_dim"),
)


def changed(config: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """The configuration with one to three values of another type, at any depth."""
    config = copy.deepcopy(config)
    for _ in range(draw.randint(1, 3)):
        parts = [config, *(part for part in config.values() if isinstance(part, dict))]
        part = draw.choice(parts)
        part[draw.choice([*part, *KEYS])] = copy.deepcopy(draw.choice(ODD))
    return config


def judged(name: str, config: dict[str, Any]) -> bool:
    """True if the repository with this config.json is planned. Raises: any exception except a refusal."""
    declared, card, gpus, _kind = VERDICTS[name]
    names, source = ENTRIES[name]["files"], f"x/{name}"
    try:
        if problem := kind_problem(source, names, config):
            raise problem
        files = replace(
            locked("phi-4"), config=kept(config), fetched=fetched(names, architecture_of(config)), files=tuple(names)
        )
        fit_of(card, (declared(source),), "26.07", replace(AROUND, locked={source: files}), FitOptions(gpus=gpus))
    except Refusal:
        return False
    return True


@pytest.mark.parametrize("seed", range(8))
def test_any_config_is_planned_or_refused(seed: int) -> None:
    """Each seed tries 100 configurations, of which none may end in a traceback."""
    draw = random.Random(seed)
    for _ in range(100):
        name = draw.choice(list(ENTRIES))
        judged(name, changed(ENTRIES[name]["config"], draw))


ENTRY = {
    "repository": "a/b",
    "commit": "c" * 40,
    "bytes": 5,
    "elements": {"BF16": 2},
    "config": {"architectures": ["LlamaForCausalLM"]},
    "files": {"config.json": 2},
    "beside": [],
}


@pytest.mark.parametrize(
    "edit",
    [
        {"repository": "evil/b"},
        {"repository": "../b"},
        {"commit": "main"},
        {"commit": "../../b"},
        {"files": {"../../etc/cron.d/a": 1}},
        {"files": {"/etc/a": 1}},
        {"files": {"a\n": 1}},
        {"beside": ["a/../../b"]},
        {"bytes": -1},
        {"bytes": 10**30},
        {"elements": {"BF16": -2}},
    ],
)
def test_a_lock_that_a_stranger_edited_is_refused(edit: dict[str, Any], tmp_path: Path) -> None:
    """Examples are another repository under the model's name, paths outside the repository, and impossible numbers."""
    file = tmp_path / "models.lock.json"
    file.write_text(json.dumps({"form": 1, "models": {"a/b": ENTRY}}))
    assert read_lock(file)["a/b"].revision == "c" * 40
    file.write_text(json.dumps({"form": 1, "models": {"a/b": ENTRY | edit}}))
    with pytest.raises(Refusal) as refused:
        read_lock(file)
    assert refused.value.kind == "broken-lock"


@pytest.mark.parametrize("seed", range(4))
def test_any_lock_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    """A merge of two branches can leave any text."""
    draw, file = random.Random(seed), tmp_path / "models.lock.json"
    for _ in range(50):
        file.write_text(json.dumps({"form": 1, "models": {"a/b": changed(ENTRY, draw)}}))
        try:
            read_lock(file)
        except Refusal as refusal:
            assert refusal.kind == "broken-lock"
