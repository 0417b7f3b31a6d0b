"""An engine as a model repository: five models, six with a draft, under the public name of one LLM.

    <name>                      ensemble: text in, text out, one event a token where it streams
    <name>_preprocessing        text to token ids, stop and bad words too
    <name>_tensorrt_llm         token ids in and out: the engine
    <name>_tensorrt_llm_draft   the engine that drafts for it
    <name>_postprocessing       token ids to text
    <name>_tensorrt_llm_bls     text in, text out, each event the whole text so far; speculates with the draft

The engine's files are not part of a release: they lie beside it and are mounted.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, cast

from deploy.engine.recipe import ADAPTERS_ARE
from deploy.files import weights_path
from deploy.slice import ModelSlice, ServerSlice
from roles.texts import HERE
from roles.triton import inflight
from roles.triton.defaults import Defaults
from roles.triton.templates import rendered

SHIM = HERE / "files" / "llm" / "engine.py"
EXAMPLES = "/app/examples"
ENGINE_ROLES = ("tensorrt_llm_draft", "tensorrt_llm")
PYTHON_ROLES = ("preprocessing", "postprocessing", "tensorrt_llm_bls")
KEPT = "Triton wants a version directory; what is served lies elsewhere.\n"


def model_name(model: ModelSlice, role: str) -> str:
    """What Triton calls the model of this role."""
    return f"{model.name}_{role}"


def load_order(model: ModelSlice) -> list[str]:
    """Names of all models of one LLM, each after those it needs; one on another path has only itself."""
    if model.path != "engine":
        return [model.name]
    engines = [role for role in ENGINE_ROLES if role in model.settings]
    first = [model_name(model, role) for role in ("preprocessing", "postprocessing", *engines)]
    return [*first, model.name, model_name(model, "tensorrt_llm_bls")]


def engine_models(server: ServerSlice) -> list[str]:
    """Names of the models behind the C++ backend, in load order."""
    return [
        model_name(model, role)
        for model in server.models
        if model.path == "engine"
        for role in ENGINE_ROLES
        if role in model.settings
    ]


def is_orchestrator(server: ServerSlice) -> bool:
    """Whether each engine needs a process of its own beside Triton: the C++ runtime holds one (TensorRT-LLM issue 984).

    With several ranks every rank is such a process already.
    """
    return server.mpi_ranks == 1 and len(engine_models(server)) > 1


def conversions(model: ModelSlice) -> list[tuple[str, list[str]]]:
    """(directory, command that fills it, which takes the directory last) of what the image makes from other files.

    Adapters in the engine's form, and xgrammar's view of the tokenizer; both with the image's own example programs.
    """
    told = _settings(model, "tensorrt_llm") if model.path == "engine" else {}
    found = []
    if information := told.get("xgrammar_tokenizer_info_path"):
        program = f"{EXAMPLES}/generate_xgrammar_tokenizer_info.py"
        command = ["python3", program, "--model_dir", told["tokenizer_dir"], "--output_dir"]
        found.append((str(PurePosixPath(information).parent), command))
    if prefetched := told.get("lora_prefetch_dir"):
        adapters = zip(cast(list[dict[str, Any]], model.settings["adapters"]), model.adapters, strict=True)
        for adapter, weights in adapters:
            command = ["python3", f"{EXAMPLES}/hf_lora_convert.py", "-i", weights_path(weights)]
            found.append((f"{prefetched}/{adapter['task_id']}", [*command, "--storage-type", ADAPTERS_ARE, "-o"]))
    return found


def engine_files(model: ModelSlice, trtllm: str, settings: Defaults) -> dict[str, bytes]:
    """The files of all its models by path inside `models/`."""
    found = {
        f"{model.name}/config.pbtxt": _ensemble(model, trtllm),
        f"{model.name}/1/kept": KEPT.encode(),
    }
    for role in (*PYTHON_ROLES, *ENGINE_ROLES):
        if role not in model.settings:
            continue
        name = model_name(model, role)
        found[f"{name}/config.pbtxt"] = _config(model, role, trtllm, settings)
        kept = {"model.py": SHIM.read_bytes()} if role in PYTHON_ROLES else {"kept": KEPT.encode()}
        found |= {f"{name}/1/{file}": content for file, content in kept.items()}
    return found


def _ensemble(model: ModelSlice, trtllm: str) -> bytes:
    inputs, outputs = inflight.ensemble_tensors(trtllm, _logits(model))
    return rendered(
        "ensemble.pbtxt.j2",
        name=model.name,
        max_batch_size=_settings(model, "queue")["max_batch_size"],
        inputs=inputs,
        outputs=outputs,
        steps=inflight.steps(trtllm, _logits(model)),
        names={role: model_name(model, role) for role in ("preprocessing", "tensorrt_llm", "postprocessing")},
    )


def _config(model: ModelSlice, role: str, trtllm: str, settings: Defaults) -> bytes:
    inputs, outputs = _tensors(model, role, trtllm)
    queue = _settings(model, "queue")
    is_engine = role in ENGINE_ROLES
    instances = {
        "preprocessing": settings.preprocessing_instances,
        "postprocessing": settings.postprocessing_instances,
        "tensorrt_llm_bls": settings.bls_instances,
    }
    return rendered(
        "inflight.pbtxt.j2",
        name=model_name(model, role),
        backend="tensorrtllm" if is_engine else "python",
        max_batch_size=queue["max_batch_size"],
        decoupled=model.decoupled if is_engine or role == "tensorrt_llm_bls" else None,
        # the engine's queue is where requests wait; tokenising is never slower than generating, and BLS runs none
        batching=queue["max_queue_size"] if is_engine else (None if role == "tensorrt_llm_bls" else 0),
        inputs=inputs,
        outputs=outputs,
        instances=instances.get(role, 1),
        parameters=_settings(model, role),
    )


def _tensors(model: ModelSlice, role: str, trtllm: str) -> inflight.Sides:
    if role == "preprocessing":
        return inflight.preprocessing_tensors(trtllm)
    if role == "postprocessing":
        return inflight.postprocessing_tensors(trtllm)
    if role == "tensorrt_llm_bls":
        return inflight.bls_tensors(trtllm, _logits(model), "tensorrt_llm_draft" in model.settings)
    return inflight.engine_tensors(trtllm)


def _logits(model: ModelSlice) -> inflight.Logits:
    return inflight.Logits(**_settings(model, "logits"))


def _settings(model: ModelSlice, part: str) -> dict[str, Any]:
    return cast(dict[str, Any], model.settings[part])
