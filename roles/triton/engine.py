"""An engine as a model repository: six models, seven with a draft, under the public name of one LLM.

    <name>                      ensemble: text in, text out, one event a token if it streams
    <name>_completion           the contract of an LLM on the PyTorch path (deploy/models/llm_contract.py)
    <name>_preprocessing        text to token ids, stop and bad words too
    <name>_tensorrt_llm         token ids in and out: the engine
    <name>_tensorrt_llm_draft   the engine that drafts for it
    <name>_postprocessing       token ids to text
    <name>_tensorrt_llm_bls     text in, text out, each event the whole text so far; speculates with the draft

The engine's files are not part of a release: they are beside it and mounted.
"""

import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, cast

from deploy.engine.recipe import ADAPTERS_ARE
from deploy.models.files import weights_path
from deploy.models.llm_contract import model_name as contract_name
from deploy.slices.host import ModelSlice
from roles._shipping.texts import HERE
from roles.triton.contract import Contract, Logits, Tensors, contract
from roles.triton.defaults import Defaults
from roles.triton.loaded import Conversion, Loaded
from roles.triton.slot import slot
from roles.triton.templates import rendered

SHIM = HERE / "files" / "llm" / "engine.py"
EXAMPLES = "/app/examples"
ENGINE_ROLES = ("tensorrt_llm_draft", "tensorrt_llm")
PYTHON_ROLES = ("preprocessing", "postprocessing", "tensorrt_llm_bls")
CHECK_MILLISECONDS = 100
KEPT = "Triton wants a version directory; what is served lies elsewhere.\n"


def engine(model: ModelSlice, trtllm: str, settings: Defaults) -> Loaded:
    """Triton's models for a planned LLM of the engine path; `trtllm` is the image's TensorRT-LLM."""
    roles = [role for role in (*PYTHON_ROLES, *ENGINE_ROLES) if role in model.settings]
    agreed = contract(trtllm, Logits(**_settings(model, "logits")), "tensorrt_llm_draft" in model.settings)
    files = {f"{model.name}/config.pbtxt": _ensemble(model, agreed), f"{model.name}/1/kept": KEPT.encode()}
    for role in roles:
        name = model_name(model, role)
        files[f"{name}/config.pbtxt"] = _config(model, role, agreed.by_role[role], settings)
        kept = {"model.py": SHIM.read_bytes()} if role in PYTHON_ROLES else {"kept": KEPT.encode()}
        files |= {f"{name}/1/{file}": content for file, content in kept.items()}
    completion = contract_name(model.name, model.path)
    parameters = _completion(model, agreed.by_role["tensorrt_llm"])
    ours = slot(completion, "completion.py", model.decoupled, parameters)
    files |= {f"{completion}/{path}": content for path, content in ours.items()}
    return Loaded(load_order(model), files, engine_names(model), tuple(_conversions(model)))


def model_name(model: ModelSlice, role: str) -> str:
    return f"{model.name}_{role}"


def engine_names(model: ModelSlice) -> tuple[str, ...]:
    return tuple(model_name(model, role) for role in ENGINE_ROLES if role in model.settings)


def load_order(model: ModelSlice) -> tuple[str, ...]:
    """Names of all models of one planned model, each after those that it needs; on another path only itself."""
    if model.path != "engine":
        return (model.name,)
    first = [model_name(model, role) for role in ("preprocessing", "postprocessing")]
    last = (model.name, model_name(model, "tensorrt_llm_bls"), contract_name(model.name, model.path))
    return (*first, *engine_names(model), *last)


def _ensemble(model: ModelSlice, agreed: Contract) -> bytes:
    return rendered(
        "ensemble.pbtxt.j2",
        name=model.name,
        max_batch_size=_settings(model, "queue")["max_batch_size"],
        inputs=agreed.ensemble.inputs,
        outputs=agreed.ensemble.outputs,
        steps=agreed.steps,
        names={role: model_name(model, role) for role in ("preprocessing", "tensorrt_llm", "postprocessing")},
    )


def _config(model: ModelSlice, role: str, tensors: Tensors, settings: Defaults) -> bytes:
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
        # requests wait in the engine's queue only: tokenising is faster than generating, and BLS does not batch
        batching=queue["max_queue_size"] if is_engine else (None if role == "tensorrt_llm_bls" else 0),
        inputs=tensors.inputs,
        outputs=tensors.outputs,
        instances=instances.get(role, 1),
        parameters=_settings(model, role),
    )


def _completion(model: ModelSlice, tensors: Tensors) -> dict[str, object]:
    """Parameters of the contract's model: the models that it calls for tokens, allowed options, and limits."""
    queue, engine = _settings(model, "queue"), _settings(model, "tensorrt_llm")
    names = {tensor.name for tensor in tensors.inputs}
    adapters = {
        adapter["name"]: adapter["task_id"] for adapter in cast(list[dict[str, Any]], model.settings["adapters"])
    }
    parameters: dict[str, object] = {
        "max_running": queue["max_batch_size"],
        "max_queue_size": queue["max_queue_size"],
        "cancellation_check_period_ms": engine.get("cancellation_check_period_ms", CHECK_MILLISECONDS),
        "engine": model_name(model, "tensorrt_llm"),
        "seed_input": next(name for name in ("seed", "random_seed") if name in names),
        "min_tokens_input": next(name for name in ("min_tokens", "min_length") if name in names),
        "tokenizer_dir": _settings(model, "preprocessing")["tokenizer_dir"],
    }
    parameters |= {"guided_decoding": "true"} if engine.get("guided_decoding_backend") else {}
    return parameters | ({"adapters": json.dumps(adapters)} if adapters else {})


def _conversions(model: ModelSlice) -> Iterator[Conversion]:
    """Conversions of adapters to the engine's form, and of the tokenizer for xgrammar, by the image's own examples."""
    parameters = _settings(model, "tensorrt_llm")
    if information := parameters.get("xgrammar_tokenizer_info_path"):
        program = f"{EXAMPLES}/generate_xgrammar_tokenizer_info.py"
        command = ["python3", program, "--model_dir", parameters["tokenizer_dir"], "--output_dir"]
        yield str(PurePosixPath(information).parent), command
    if prefetched := parameters.get("lora_prefetch_dir"):
        adapters = zip(cast(list[dict[str, Any]], model.settings["adapters"]), model.adapters, strict=True)
        for adapter, weights in adapters:
            command = ["python3", f"{EXAMPLES}/hf_lora_convert.py", "-i", weights_path(weights)]
            yield f"{prefetched}/{adapter['task_id']}", [*command, "--storage-type", ADAPTERS_ARE, "-o"]


def _settings(model: ModelSlice, part: str) -> dict[str, Any]:
    return cast(dict[str, Any], model.settings[part])
