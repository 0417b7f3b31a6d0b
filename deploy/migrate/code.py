"""Settings of a server in Python code or in YAML values, as the command line with the same meaning.

Read: commands that Python starts as lists or texts; `LLM(…)` and `AsyncEngineArgs(…)` of vLLM, `LLM(…)` of
TensorRT-LLM, `LLMConfig(…)` and `llm_configs` of Ray, values of vLLM's production-stack chart, the file of
`vllm serve --config`, and settings of SageMaker's and Vertex AI's containers. Nothing is run. More than 300 lines: each
form is read by one function, and they share the values of expressions.
"""

import ast
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress

import yaml

from deploy.migrate.options import NO_PLACE
from deploy.migrate.places import PLACES
from deploy.migrate.servers import ENGINES

MOST_CHARACTERS = 100_000
CALLS = frozenset(["LLM", "AsyncLLM", "LLMEngine", "EngineArgs", "AsyncEngineArgs", "AsyncLLMEngine"])
IN_CODE = re.compile(r"\b(?:LLM|AsyncLLM|EngineArgs|AsyncEngineArgs|LLMConfig)\(")
IN_YAML = re.compile(r"\b(?:llm_configs|model_loading_config|modelURL|serveConfigV2)\b|^model: ", re.MULTILINE)
OF_TRTLLM = {
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "moe_expert_parallel_size": "ep_size",
}
IN_PYTHON = re.compile(r"^[ \t]*(?:import|from) \w|^(?:\w+ = )?[\w.]+\([ \t]*$", re.MULTILINE)
SETTINGS = re.compile(r"^option\.model_id[ \t]*=|(['\"])(?:HF|OPTION)_MODEL_ID\1[ \t]*:", re.MULTILINE)
"""Settings of a container of SageMaker: its properties, or its variables as a dictionary of Python or JSON."""
PROPERTY = re.compile(r"^option\.(\w+)[ \t]*=[ \t]*(\S+)", re.MULTILINE)
IMAGE = re.compile(r"(?<![\w./{}:-])[\w./{}:-]{0,200}(?:djl-inference|djl-serving|-tgi-inference|/vllm:)[\w./{}:-]*")
STARTS = re.compile("|".join(re.escape(name) for engine in ENGINES for name in (*engine.programs, *engine.modules)))
PRINTING_CALLS = frozenset(["print", "debug", "info", "warning", "error", "exception", "write", "add_argument"])
"""Python functions whose texts are messages for people, not commands."""
PASSES_ON = ("str", "int", "dumps", "Path", "from_registry", "HuggingFaceModel")
"""Functions that become the text of their last argument."""
UNSEEN = "$expression"
"""Mark in the report for a value that only the running code knows."""
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
OF_CHART = {"gpuMemoryUtilization": "gpu-memory-utilization", "tensorParallelSize": "tensor-parallel-size"}


def commands_in(text: str) -> Iterator[str]:
    """A command for each server that the code or the values of this text start."""
    if len(text) > MOST_CHARACTERS:
        return
    if IN_CODE.search(text):
        yield from _of_python(text)
    elif SETTINGS.search(text):
        with suppress(RecursionError):
            yield from _of_settings(text)
    elif IN_PYTHON.search(text) and STARTS.search(text):
        yield from _of_processes(text)
    elif IN_YAML.search(text):
        for document in _documents(text):
            yield from _of_values(document)
            if isinstance(document, Mapping):
                yield from _of_config(document)


def _tree(text: str) -> ast.AST:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _of_processes(text: str) -> list[str]:
    """The commands of servers that the code starts, as lists of words or as texts for a shell, with added words."""
    nodes = list(ast.walk(_tree(text)))
    commands: list[str] = []
    try:
        known, added = _constants(nodes), _added(nodes)
        for node in nodes:
            values: list[ast.expr] = [node.value] if isinstance(node, ast.Assign | ast.Return) and node.value else []
            more = added.get(_name(node.targets[0]), []) if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.Call) and _name(node.func) not in PRINTING_CALLS:
                commands += _of_container(node, known)
                values = [*node.args, *(keyword.value for keyword in node.keywords)]
            commands += [_command_of(value, more, known) for value in values]
    except RecursionError:
        return []
    return [command for command in commands if STARTS.search(command)]


def _of_container(node: ast.Call, known: Mapping[str, str]) -> Iterator[str]:
    """The `docker run` of a call with an image of a server and its words: Docker's library, Vertex AI."""
    named = {keyword.arg or "": keyword.value for keyword in node.keywords}
    images = [*node.args[:1], *(named[key] for key in ("image", "serving_container_image_uri") if key in named)]
    image = next((text for part in images if "/" in (text := _spoken(part, known)) and "$" not in text), "")
    if not any(engine.image.search(image) for engine in ENGINES) or re.search(r"\s", image):
        return
    options = ["--gpus all"] if "device_requests" in named else []
    for key, form in (("environment", "-e {0}={1}"), ("ports", "-p {1}:{0}")):
        pairs = _value(named[key]) if key in named else {}
        for name, value in pairs.items() if isinstance(pairs, Mapping) else ():
            options.append(form.format(str(name).removesuffix("/tcp"), shlex.quote(str(value))))
    words = node.args[1:2] if _name(node.func) in ("run", "create") else []
    words += [named[key] for key in ("command", "args", "serving_container_args") if key in named]
    rows = [_command_of(part, [], known) or _spoken(part, known) for part in words]
    yield " ".join(["docker run", *options, image, *rows])


def _of_settings(text: str) -> Iterator[str]:
    """The `docker run` of a container of SageMaker, made of its settings."""
    pairs = {f"OPTION_{name.upper()}": value for name, value in PROPERTY.findall(text)}
    nodes = list(ast.walk(_tree(text)))
    known = _constants(nodes)
    for node in nodes:
        keys = [_spoken(key, known) if key else "" for key in node.keys] if isinstance(node, ast.Dict) else []
        if isinstance(node, ast.Dict) and {"HF_MODEL_ID", "OPTION_MODEL_ID"} & {*keys}:
            pairs |= {key: _spoken(value, known) for key, value in zip(keys, node.values, strict=True) if key.isupper()}
    image = IMAGE.search(text)
    is_tgi = "SM_NUM_GPUS" in pairs or "get_huggingface_llm_image_uri" in text
    name = image[0] if image else "huggingface-pytorch-tgi-inference" if is_tgi else "djl-inference"
    options = [f"-e {shlex.quote(f'{key}={value}')}" for key, value in pairs.items() if "$" not in value]
    yield " ".join(["docker run", *options, re.sub(r"[{}]", "", name)])


def _command_of(value: ast.expr, more: list[ast.expr], known: Mapping[str, str]) -> str:
    """The shell command of a list of words or of a text; empty for any other value."""
    if isinstance(value, ast.List | ast.Tuple) and len(value.elts) > 1:
        words = [_spoken(part, known) for part in value.elts]
        for text in (_spoken(part, known) for part in more):
            words = words[:-1] if "$" in text and words[-1].startswith("--") else words
            words += [] if "$" in text else [text]
        return " ".join(map(_word, words))
    text = _spoken(value, known) if isinstance(value, ast.Constant | ast.JoinedStr | ast.BinOp) else ""
    return text if " " in text.strip() else ""


def _word(text: str) -> str:
    return shlex.quote(text) if "$" not in text else f'"{text}"' if re.search(r"[\s;|&]", text) else text


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _spoken(node: ast.expr, known: Mapping[str, str]) -> str:
    """The text that an expression becomes; `$name` for a value that only the running code knows."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return str(node.value)
    if isinstance(node, ast.Name):
        return known.get(node.id, f"${node.id}")
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
        return "".join(_spoken(part, known) for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _spoken(node.left, known) + _spoken(node.right, known)
    if isinstance(node, ast.Call) and node.args and _name(node.func) in (*PASSES_ON, "get", "getenv"):
        return _spoken(node.args[-1], known) if _name(node.func) in PASSES_ON or len(node.args) == 2 else UNSEEN
    if isinstance(node, ast.Attribute):
        return "python3" if node.attr == "executable" else known.get(node.attr, f"${node.attr}")
    return UNSEEN


def _constants(nodes: list[ast.AST]) -> dict[str, str]:
    """The names that have one value in the whole code, and parameters with a default."""
    values: dict[str, set[str]] = {}
    for node in nodes:
        pairs: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            pairs = [(target.id, node.value) for target in targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.arguments) and node.defaults:
            names = [parameter.arg for parameter in node.args[-len(node.defaults) :]]
            pairs = list(zip(names, node.defaults, strict=False))
        for name, value in pairs:
            values.setdefault(name, set()).add(_spoken(value, {}))
    return {name: min(texts) for name, texts in values.items() if len(texts) == 1 and "$" not in min(texts)}


def _added(nodes: list[ast.AST]) -> dict[str, list[ast.expr]]:
    """The words that the code adds to a list later, by the list's name."""
    added: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.List):
            added.setdefault(_name(node.target), []).extend(node.value.elts)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "extend":
            words = [part for value in node.args if isinstance(value, ast.List) for part in value.elts]
            added.setdefault(_name(node.func.value), []).extend(words)
    return added


def _of_python(text: str) -> Iterator[str]:
    tree = _tree(text)
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
    """The value of a constant expression; UNSEEN for any other."""
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
    else:
        for row in value.values():
            is_file = isinstance(row, str) and "\n" in row and IN_YAML.search(row)
            for inner in _documents(str(row)) if is_file else [row]:
                yield from _of_values(inner)


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
    if isinstance(document.get("model"), str) and {"triton_config", "backend"} & document.keys():
        yield _command("trtllm-serve", document)
    elif isinstance(document.get("model"), str) and len(names) > 1 and len(names & {*PLACES, *NO_PLACE}) == len(names):
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
