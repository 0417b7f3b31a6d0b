"""Settings of a server in Python code or in YAML values, as the command line with the same meaning.

Read: `LLM(…)` and `AsyncEngineArgs(…)` of vLLM, `LLM(…)` of TensorRT-LLM, `LLMConfig(…)` and `llm_configs` of Ray,
values of vLLM's production-stack chart, and the file of `vllm serve --config`. Nothing is run.
"""

import ast
import json
import re
import shlex
from collections.abc import Iterator, Mapping

import yaml

from deploy.migrate.options import NO_PLACE
from deploy.migrate.places import PLACES

MOST_CHARACTERS = 100_000
CALLS = frozenset(["LLM", "AsyncLLM", "LLMEngine", "EngineArgs", "AsyncEngineArgs", "AsyncLLMEngine"])
IN_CODE = re.compile(r"\b(?:LLM|AsyncLLM|EngineArgs|AsyncEngineArgs|LLMConfig)\(")
IN_YAML = re.compile(r"\b(?:llm_configs|model_loading_config|modelURL|serveConfigV2)\b|^model: ", re.MULTILINE)
OF_TRTLLM = {
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "moe_expert_parallel_size": "ep_size",
}
UNSEEN = "$expression"
"""Stands for a value that only the running code knows; it is reported as such."""
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
OF_CHART = {"gpuMemoryUtilization": "gpu-memory-utilization", "tensorParallelSize": "tensor-parallel-size"}


def commands_in(text: str) -> Iterator[str]:
    """A command for each server that the code or the values of this text start."""
    if len(text) > MOST_CHARACTERS:
        return
    if IN_CODE.search(text):
        yield from _of_python(text)
    elif IN_YAML.search(text):
        for document in _documents(text):
            yield from _of_values(document)
            if isinstance(document, Mapping):
                yield from _of_config(document)


def _of_python(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    is_trtllm = "tensorrt_llm" in text
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        settings = {keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg}
        if name == "LLMConfig":
            yield from _of_ray(settings)
        elif name in CALLS:
            if node.args and "model" not in settings:
                settings["model"] = _value(node.args[0])
            if "model" in settings:
                yield _command("trtllm-serve" if is_trtllm else "vllm serve", settings)


def _value(node: ast.expr) -> object:
    """The value of an expression; UNSEEN for anything but a constant."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict" and not node.args:
        return {keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg}
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNSEEN


def _of_ray(config: Mapping[str, object]) -> Iterator[str]:
    """An LLMConfig of Ray Serve: the model's source, the engine's settings and the replicas."""
    loading, engine = config.get("model_loading_config"), config.get("engine_kwargs")
    loading = loading if isinstance(loading, Mapping) else {}
    source = loading.get("model_source") or loading.get("model_id")
    if not source:
        return
    settings: dict[str, object] = {"model": source}
    if loading.get("model_source") and loading.get("model_id"):
        settings["served_model_name"] = loading["model_id"]
    settings |= {str(key): value for key, value in engine.items()} if isinstance(engine, Mapping) else {}
    for key in ("deployment_config", "accelerator_type", "lora_config", "runtime_env"):
        if key in config:
            settings[key] = config[key]
    yield _command("vllm serve", settings)


def _of_values(value: object) -> Iterator[str]:
    """The servers of Ray's `llm_configs` and of a chart's values, at any depth."""
    if isinstance(value, list):
        for row in value:
            yield from _of_values(row)
    if not isinstance(value, Mapping):
        return
    if "model_loading_config" in value:
        yield from _of_ray(value)
    elif isinstance(value.get("modelURL"), str):
        yield _of_chart(value)
    elif isinstance(inner := value.get("serveConfigV2"), str):
        for document in _documents(inner):
            yield from _of_values(document)
    else:
        for row in value.values():
            yield from _of_values(row)


def _of_chart(model: Mapping[str, object]) -> str:
    """A model of vLLM's production-stack chart."""
    settings: dict[str, object] = {"model": model["modelURL"]}
    config = model.get("vllmConfig")
    extra: list[str] = []
    for key, value in config.items() if isinstance(config, Mapping) else ():
        if key == "extraArgs" and isinstance(value, list):
            extra += [str(part) for part in value]
        else:
            settings[OF_CHART.get(str(key), CAMEL.sub("-", str(key)).lower())] = value
    if "tensor-parallel-size" not in settings and str(model.get("requestGPU", 1)) not in ("0", "1"):
        settings["tensor-parallel-size"] = model["requestGPU"]
    settings |= {str(key): value for key, value in model.items() if key not in ("modelURL", "vllmConfig", "requestGPU")}
    return " ".join([_command("vllm serve", settings), *map(shlex.quote, extra)])


def _of_config(document: Mapping[str, object]) -> Iterator[str]:
    """The file of `vllm serve --config`: its keys are names of options."""
    names = {f"--{str(key).replace('_', '-')}" for key in document}
    if isinstance(document.get("model"), str) and len(names) > 1 and len(names & {*PLACES, *NO_PLACE}) == len(names):
        yield _command("vllm serve", {str(key): value for key, value in document.items()})


def _command(program: str, settings: Mapping[str, object]) -> str:
    """The command line; a value of several parts is written as JSON."""
    model = settings.get("model")
    words = [*program.split(), *([] if model in (None, UNSEEN) else [shlex.quote(str(model))])]
    for key, value in settings.items():
        name = OF_TRTLLM.get(key, key) if program == "trtllm-serve" else key
        flag = f"--{name.replace('_', '-')}"
        if key == "model" or value is None:
            continue
        if value is True or value is False:
            words.append(flag if value else f"--no-{flag[2:]}")
        elif value == UNSEEN:
            words += [flag, UNSEEN]
        elif isinstance(value, (Mapping, list)):
            words += [flag, shlex.quote(json.dumps(value, default=str))]
        else:
            words += [flag, shlex.quote(str(value))]
    return " ".join(words)


def _documents(text: str) -> list[object]:
    try:
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
