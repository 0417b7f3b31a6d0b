"""The engines that a model is served from: the target's first, then the draft's."""

import re

from deploy.engine.checkpoint import is_calibrated
from deploy.engine.commands import build_pairs, row_in_words, steps_of
from deploy.engine.fingerprint import fields_of, fingerprint
from deploy.engine.recipe import DRAFT, Recipe, recipes_of
from deploy.engine.sizes import build_gpu_mib, build_host_mib, engine_mib, scratch_mib
from deploy.models.budget import Share
from deploy.models.devices import device_name
from deploy.models.files import ENGINES
from deploy.models.resolve import Served, gpu_of
from deploy.slices.host import EngineSlice, ReplaySlice, WeightsSlice
from deploy.slices.image import ImageSlice
from deploy.spec import LLM, Host, Replay, Server
from deploy.spec.surroundings import Surroundings

MISSING = "missing"
"""Stands for the digest of calibration texts that are not here: a plan can be shown, with a note, and not deployed."""

NOT_IN_NAMES = re.compile(r"[^a-z0-9.]+")


def engines_of(
    served: Served, share: Share, server: Server, host: Host, image: ImageSlice, surroundings: Surroundings
) -> tuple[EngineSlice, ...]:
    """The slices of a model's engines; its inventory has been validated."""
    gpu = gpu_of(host, server)
    assert gpu, "an unknown GPU passed the checks"
    engines = []
    for recipe in recipes_of(served, server, image.trtllm):
        digest = _calibration_digest(recipe, surroundings)
        fields = fields_of(recipe, gpu.sm, image, digest)
        engines.append(engine_slice(recipe, served, host, share.gpus[: recipe.layout.world], gpu.sm, fields, digest))
    return tuple(engines)


def engine_slice(
    recipe: Recipe,
    served: Served,
    host: Host,
    gpus: tuple[int, ...],
    sm: str,
    fields: dict[str, object],
    calibration_digest: str,
) -> EngineSlice:
    """An engine as the plan has it; `fields` are the inputs of its fingerprint."""
    mark = fingerprint(fields)
    staging = f"{ENGINES}/{recipe.model}/.{mark}.staging"
    return EngineSlice(
        model=recipe.model,
        role=recipe.role,
        fingerprint=mark,
        fields=fields,
        name=store_name(recipe, served, sm, mark),
        path=f"{ENGINES}/{recipe.model}/{mark}",
        staging=staging,
        precision=recipe.precision,
        kv_dtype=recipe.kv_dtype,
        tensor=recipe.layout.tensor,
        pipeline=recipe.layout.pipeline,
        expert=recipe.layout.expert,
        sm=sm,
        gpus=gpus,
        devices=tuple(device_name(gpu, host) for gpu in gpus),
        steps=steps_of(recipe, staging, calibration_digest),
        flags=build_pairs(recipe, staging),
        flags_row=row_in_words(recipe.trtllm),
        weights=read_by(recipe),
        calibration=_calibration_texts(recipe),
        size_mib=engine_mib(recipe, served),
        scratch_mib=scratch_mib(recipe, served),
        gpu_mib=build_gpu_mib(recipe, served),
        host_mib=build_host_mib(recipe, served),
        replay=replay_slice(served) if recipe.role != DRAFT else None,
        unjudged=unjudged(served) if recipe.role != DRAFT else "",
    )


def _calibration_texts(recipe: Recipe) -> str:
    return recipe.calibration.directory if recipe.calibration and is_calibrated(recipe) else ""


def _calibration_digest(recipe: Recipe, surroundings: Surroundings) -> str:
    """The digest of the calibration texts; empty if the build reads no texts."""
    texts = _calibration_texts(recipe)
    return surroundings.calibrations.get(texts, MISSING) if texts else ""


def store_name(recipe: Recipe, served: Served, sm: str, mark: str) -> str:
    """The directory's name in an engine store; model, precision, GPU and layout can be read from it."""
    experts = f"-ep{recipe.layout.expert}" if recipe.layout.expert > 1 else ""
    cache = f"-kv-{recipe.kv_dtype}" if recipe.has_small_cache else ""
    parts = (
        _plain(_checkpoint_name(recipe, served)),
        _plain(recipe.precision) + cache,
        f"tp{recipe.layout.tensor}-pp{recipe.layout.pipeline}{experts}",
        f"trtllm-{recipe.trtllm}",
        f"sm{sm}",
        mark,
    )
    return ".".join(parts)


def read_by(recipe: Recipe) -> tuple[WeightsSlice, ...]:
    """Every set of files that the steps read; only the draft's own engine reads a draft model's files."""
    heads = recipe.speculative_weights and type(recipe.speculative).__name__ != "Draft"
    return (recipe.weights, *([recipe.speculative_weights] if heads and recipe.speculative_weights else []))


def replay_slice(served: Served) -> ReplaySlice | None:
    """The prompts and limits that judge an engine before it is signed; None if the inventory chose no replay."""
    wanted = _replay(served)
    if wanted is None or not wanted.judged:
        return None
    return ReplaySlice(
        prompts=wanted.prompts,
        answers=wanted.answers,
        max_tokens=wanted.max_tokens,
        equal_percent=float(wanted.equal_percent),  # 95 and 95.0 give one digest
        tasks=wanted.tasks,
        minimum_percent=float(wanted.minimum_percent),
    )


def unjudged(served: Served) -> str:
    """The inventory's reason for not judging the engine's answers; empty if they are judged."""
    wanted = _replay(served)
    return wanted.reason if wanted and not wanted.judged else ""


def _replay(served: Served) -> Replay | None:
    return served.model.replay if isinstance(served.model, LLM) else None


def _checkpoint_name(recipe: Recipe, served: Served) -> str:
    """The catalog's name of the checkpoint, else its repository's, else the served model's."""
    speculative = served.model.speculative if isinstance(served.model, LLM) else None
    checkpoint = getattr(speculative, "checkpoint", "") if recipe.role == DRAFT else served.model.checkpoint
    return (
        checkpoint
        if isinstance(checkpoint, str) and checkpoint
        else recipe.weights.repository.rsplit("/", 1)[-1] or recipe.model
    )


def _plain(name: str) -> str:
    return NOT_IN_NAMES.sub("-", name.lower()).strip("-.")
