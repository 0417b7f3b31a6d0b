"""The inputs that identify an engine. Equal fingerprints need no build; another fingerprint is never loaded.

No path and no host name is in it, and neither is the card's memory: an engine of one SM runs on every card of that SM.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict

from deploy.engine.build_flags import LORA, NOT_IN_ENGINE, flags_of, shapes_of
from deploy.engine.checkpoint import is_calibrated, makings
from deploy.engine.recipe import Recipe
from deploy.slices.host import WeightsSlice
from deploy.slices.image import ImageSlice

DIGITS = 16
SPECULATION = ("--speculative_decoding_mode", "--max_draft_len")


def fields_of(recipe: Recipe, sm: str, image: ImageSlice, calibration: str) -> dict[str, object]:
    """The inputs of an engine's fingerprint, as plain data; `calibration` is the digest of the texts."""
    shapes = shapes_of(recipe)
    flags = dict(flags_of(recipe))
    left_out = {*NOT_IN_ENGINE, *SPECULATION, *LORA, *(f"--{name}" for name in shapes)}
    return {
        "architecture": recipe.architecture,
        "checkpoint": {"kind": "trtllm" if recipe.is_finished else "hub", **_source(recipe.weights)},
        "precision": recipe.precision,
        "kv_dtype": recipe.kv_dtype,
        "calibration": _calibration(recipe, calibration),
        "parallel": {**asdict(recipe.layout)},
        "shapes": shapes | {name: int(flags[f"--{name}"]) for name in shapes},
        "flags": {name: value for name, value in flags.items() if name not in left_out},
        "convert": [
            {"program": making.program, "flags": _flags(making.flags)} for making in makings(recipe, "", calibration)
        ],
        "speculation": _speculation(recipe, flags),
        "lora": {LORA[name]: flags[name] for name in LORA} if recipe.lora else None,
        "sm": sm,
        "trtllm": recipe.trtllm,
        "image": {"reference": image.reference, "digest": image.digest},
    }


def fingerprint(fields: Mapping[str, object]) -> str:
    """16 hex digits over the fields; the fields' order does not matter."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _source(weights: WeightsSlice) -> dict[str, str]:
    return {"repository": weights.repository, "revision": weights.revision}


def _calibration(recipe: Recipe, digest: str) -> dict[str, object] | None:
    if not is_calibrated(recipe) or recipe.calibration is None:
        return None
    return {"digest": digest, "samples": recipe.calibration.samples}


def _speculation(recipe: Recipe, flags: Mapping[str, str]) -> dict[str, object] | None:
    """The settings of the draft or heads that are compiled into the engine; a tree is chosen again when serving."""
    if recipe.speculative is None:
        return None
    beside = _source(recipe.speculative_weights) if recipe.speculative_weights else None
    engine = {name.removeprefix("--"): flags[name] for name in SPECULATION}
    return {"kind": type(recipe.speculative).__name__, "weights": beside, **engine}


def _flags(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {name: value for name, value in pairs if name not in NOT_IN_ENGINE}
