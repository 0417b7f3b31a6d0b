"""Judges a config.pbtxt: its syntax, Triton's fields, and whether its backend will load and serve it.

Two backends are judged in detail: `tensorrtllm` (its parameters, tensors and placement) and `python` (batching).
"""

import re

from deploy.catalog.flags import engines_are_built_by
from deploy.catalog.model_config import DATA_TYPES, FIELDS, KINDS, MESSAGES
from deploy.catalog.names import nearest
from deploy.catalog.releases import LAST_ENGINE_TRTLLM, LAST_WITH_ENGINES
from deploy.linter.engines import GPT_OSS
from deploy.linter.findings import Judged
from deploy.linter.parameters import judge_parameters
from deploy.linter.pbtxt import Message, Unreadable, Value, read, write
from deploy.linter.release import Target

LOOKS_LIKE = re.compile(
    rf"\s*(?:#[^\n]*\n\s*)*(?:{'|'.join(FIELDS['ModelConfig'])})\s*(?::|\{{|\[)(?!//)", re.MULTILINE
)
HOLE = re.compile(r"^__\w+__$|^\$\{[^}]*\}$|^\$\w+$")
SHAPES = {"output_ids": "[ -1, -1 ]", "sequence_length": "[ -1 ]"}
"""Outputs of the tensorrt_llm model with one row for each beam; guides have wrong dims for them."""
SCHEDULERS = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")
RESHAPED = ("input_lengths", "request_output_len")


def is_model_config(text: str) -> bool:
    return bool(LOOKS_LIKE.match(text))


def judge_model_config(text: str, target: Target) -> Judged:
    """Every finding about a config.pbtxt, and the corrected file."""
    judged = Judged()
    try:
        config = read(text)
    except Unreadable as error:
        judged.add(
            "unreadable",
            f"line {error.line} cannot be read: {error.what}",
            seen=_line(text, error.line),
            wanted="protobuf text: name: value, messages in braces, lists in brackets with commas",
            attempt=f"mend line {error.line} and check again",
        )
        return judged
    _fields(judged, config, "ModelConfig")
    _holes(judged, config)
    _schedulers(judged, config)
    _batches(judged, config)
    if config.text("backend") == "tensorrtllm":
        _tensorrtllm(judged, config, target)
    if config.text("backend") == "python":
        _python(judged, config)
    _gpus_of_no_gpu(judged, config)
    kinds = {finding.kind for finding in judged.findings if finding.is_wrong}
    if kinds and not kinds & {"no-engine", "program-removed"}:
        judged.right = write(config).splitlines()
    return judged


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _fields(judged: Judged, message: Message, kind: str) -> None:
    for field in message.fields:
        if field.name in FIELDS[kind]:
            continue
        near = nearest(field.name, FIELDS[kind])
        judged.add(
            "unknown-field",
            f"{kind} has no field `{field.name}`",
            seen=f"line {field.line}: {field.name}",
            wanted="a field of Triton's model configuration",
            attempt=f"did you mean `{near}`?" if near else f"remove {field.name}",
        )
        field.name = near if near and not message.all(near) else f"# {field.name}"
    message.fields = [field for field in message.fields if not field.name.startswith("#")]
    _words(judged, message)
    if kind == "ModelConfig":
        for name, inner in MESSAGES.items():
            for value in message.messages(name):
                _fields(judged, value, inner)


def _words(judged: Judged, message: Message) -> None:
    for name, known in (("data_type", DATA_TYPES), ("kind", KINDS)):
        value = message.text(name)
        if value and value not in known and not HOLE.match(value):
            near = nearest(value, known) or known[-1]
            judged.add(
                "value-not-offered",
                f"`{name}` does not take `{value}`",
                seen=f"line {message.line}: {name}: {value}",
                wanted=f"one of {', '.join(known)}",
                attempt=f"{name}: {near}",
            )
            message.set(name, near)


def _holes(judged: Judged, config: Message) -> None:
    """Adds each placeholder outside quotes, which makes the file unreadable until a script fills it in."""
    for field in config.fields:
        if isinstance(field.value, str) and HOLE.match(field.value):
            judged.add(
                "unfilled-hole",
                f"`{field.value}` is a placeholder that was not filled in: Triton cannot read the file",
                seen=f"line {field.line}: {field.name}: {field.value}",
                wanted="a value, written when the repository is rendered",
                attempt=f"{field.name}: 32" if field.name == "max_batch_size" else f"{field.name}: …",
            )
            field.value = "32" if field.name == "max_batch_size" else field.value


def _tensorrtllm(judged: Judged, config: Message, target: Target) -> None:
    if not target.trtllm:
        judged.add(
            "program-removed",
            f"release {target.name} has no image with TensorRT-LLM, so no backend `tensorrtllm`",
            seen='backend: "tensorrtllm"',
            wanted="a release that has one",
            attempt=f"--release {LAST_WITH_ENGINES}",
        )
        return
    if not engines_are_built_by(target.trtllm):
        judged.add(
            "program-removed",
            f"TensorRT-LLM {target.trtllm} has no backend `tensorrtllm`: it ended with {LAST_ENGINE_TRTLLM}",
            seen='backend: "tensorrtllm"',
            wanted="the llmapi model, whose backend is python",
            attempt=f'path="pytorch", or --release {LAST_WITH_ENGINES}',
        )
    if GPT_OSS.search(config.text("name")):
        judged.add(
            "no-engine",
            "gpt-oss has no TensorRT engine in any release, so this backend has nothing to load",
            seen=f'name: "{config.text("name")}", backend: "tensorrtllm"',
            wanted="Triton's llmapi model, from TensorRT-LLM 1.1 on",
            attempt='LLM("gpt-oss-20b", …) in an inventory',
        )
    judge_parameters(judged, config, target)
    _placement(judged, config)
    _tensors(judged, config)
    if config.messages("model_transaction_policy") and "true" in _decoupled(config):
        judged.know(
            "decoupled",
            "HTTP /infer answers 501 for a decoupled model",
            seen="decoupled: true",
            wanted="/generate, /generate_stream or a gRPC stream; or decoupled: false if no client streams",
            attempt="curl -X POST HOST:8000/v2/models/NAME/generate_stream",
        )


def _decoupled(config: Message) -> list[str]:
    return [message.text("decoupled").lower() for message in config.messages("model_transaction_policy")]


def _placement(judged: Judged, config: Message) -> None:
    for group in config.messages("instance_group"):
        if group.text("kind") == "KIND_GPU":
            judged.add(
                "placement",
                "the tensorrtllm backend takes its GPUs from the parameter gpu_device_ids, not from KIND_GPU",
                seen=f"line {group.line}: kind: KIND_GPU",
                wanted="KIND_CPU, count 1",
                attempt="instance_group [ { count: 1 kind: KIND_CPU } ]",
            )
            group.set("kind", "KIND_CPU")
            group.fields = [field for field in group.fields if field.name != "gpus"]


def _tensors(judged: Judged, config: Message) -> None:
    for tensor in config.messages("output"):
        name = tensor.text("name")
        dims = [str(value) for value in tensor.all("dims")]
        wanted = SHAPES.get(name, "")
        if wanted and f"[ {', '.join(dims)} ]" != wanted:
            judged.add(
                "wrong-shape",
                f"`{name}` has another shape in the tensorrtllm backend",
                seen=f"line {tensor.line}: dims: [ {', '.join(dims)} ]",
                wanted=f"dims: {wanted}: beams first, the batch left out",
                attempt=f"dims: {wanted}",
            )
            entries: list[Value] = list(wanted.strip("[] ").split(", "))
            tensor.set("dims", entries)
    for tensor in config.messages("input"):
        if tensor.text("name") in RESHAPED and not tensor.messages("reshape"):
            judged.add(
                "wrong-shape",
                f"`{tensor.text('name')}` is a scalar of each request in the tensorrtllm backend: its shape is empty",
                seen=f"line {tensor.line}: no reshape",
                wanted="dims: [ 1 ] with an empty reshape",
                attempt="reshape: { shape: [ ] }",
            )
            empty = Message()
            empty.set("shape", [])
            tensor.set("reshape", empty)


def _gpus_of_no_gpu(judged: Judged, config: Message) -> None:
    """Adds each group that names GPUs although its kind takes none: Triton does not load the model."""
    for group in config.messages("instance_group"):
        kind = group.text("kind")
        if kind in ("KIND_CPU", "KIND_MODEL") and group.all("gpus"):
            judged.add(
                "placement",
                f"a group of {kind} names GPUs, and Triton refuses the model for it",
                seen=f"line {group.line}: kind: {kind} with gpus",
                wanted="gpus only beside KIND_GPU",
                attempt=f"instance_group [ {{ count: {group.text('count') or '1'} kind: {kind} }} ]",
            )
            group.fields = [field for field in group.fields if field.name != "gpus"]


def _schedulers(judged: Judged, config: Message) -> None:
    """Adds a second scheduler: the three are one choice of Triton's model configuration, whose text has one of them."""
    named = [field for field in config.fields if field.name in SCHEDULERS]
    if len({field.name for field in named}) > 1:
        first, *extra = named
        judged.add(
            "two-schedulers",
            f"`{extra[0].name}` stands beside `{first.name}`, and Triton cannot read a file with both",
            seen=f"line {extra[0].line}: {extra[0].name}",
            wanted=f"one of {', '.join(SCHEDULERS)}",
            attempt=f"remove {extra[0].name}",
        )
        config.fields = [field for field in config.fields if field not in extra]


def _batches(judged: Judged, config: Message) -> None:
    """Adds preferred sizes of a batch above the largest one: Triton does not load the model."""
    most = config.text("max_batch_size") or "0"
    for batcher in config.messages("dynamic_batching"):
        sizes = [str(size) for size in batcher.all("preferred_batch_size")]
        if not most.isdecimal():
            continue
        fitting: list[Value] = [size for size in sizes if not size.isdecimal() or int(size) <= int(most)]
        if len(fitting) < len(sizes):
            judged.add(
                "value-not-offered",
                "a preferred_batch_size is above max_batch_size, and Triton refuses the model for it",
                seen=f"line {batcher.line}: preferred_batch_size: [ {', '.join(sizes)} ], max_batch_size: {most}",
                wanted=f"sizes of at most {most}",
                attempt=f"preferred_batch_size: [ {', '.join(map(str, fitting)) or most} ]",
            )
            batcher.set("preferred_batch_size", fitting or [most])


def _python(judged: Judged, config: Message) -> None:
    """Adds the reasons why requests are not batched: no batcher, or lists of unequal lengths that may not be ragged."""
    size = config.text("max_batch_size")
    if size in ("", "0"):
        return
    for tensor in config.messages("input"):
        if "-1" in tensor.all("dims") and tensor.text("allow_ragged_batch") != "true":
            judged.add(
                "never-batched",
                f"Triton never batches requests whose `{tensor.text('name')}` differ in length",
                seen=f"line {tensor.line}: dims with -1, max_batch_size {size}",
                wanted="allow_ragged_batch: true; the Python backend never joins tensors, so it costs nothing",
                attempt="allow_ragged_batch: true",
            )
            tensor.set("allow_ragged_batch", "true")
    if not config.messages("dynamic_batching") and not config.messages("sequence_batching"):
        judged.add(
            "no-batcher",
            "without dynamic_batching Triton executes every request alone",
            seen=f"max_batch_size: {size}, no dynamic_batching",
            wanted="dynamic_batching",
            attempt="dynamic_batching { max_queue_delay_microseconds: 1000 }",
        )
        batcher = Message()
        batcher.set("max_queue_delay_microseconds", "1000")
        config.set("dynamic_batching", batcher)
