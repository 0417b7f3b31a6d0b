"""Judges the `parameters` of a tensorrtllm model: keys that the backend reads, mandatory keys, and values."""

from collections.abc import Callable, Mapping

from deploy.catalog.flags import BUILD, CONVERT, QUANTIZE, FlagTable, build_flags, convert_flags, quantize_flags
from deploy.catalog.guide_mistakes import MISQUOTED, REMOVED
from deploy.catalog.names import nearest, slip_of
from deploy.catalog.releases import LAST_ENGINE_TRTLLM
from deploy.catalog.runtime_keys import (
    BOOLEANS,
    NEVER_KEYS,
    RENAMED_KEYS,
    RUNTIME_KEYS,
    RuntimeKey,
    choices_of,
    mandatory_keys,
)
from deploy.linter.findings import Judged
from deploy.linter.pbtxt import Field, Message
from deploy.linter.release import Target

ENGINE_MAKERS: Mapping[str, Callable[[], list[FlagTable]]] = {
    BUILD: lambda: [build_flags(LAST_ENGINE_TRTLLM)],
    CONVERT: lambda: [convert_flags(LAST_ENGINE_TRTLLM, family) for family in ("llama", "qwen", "gpt")],
    QUANTIZE: lambda: [quantize_flags(LAST_ENGINE_TRTLLM)],
}


def judge_parameters(judged: Judged, config: Message, target: Target) -> None:
    """Adds the findings about the `parameters` of `config`, and corrects `config` in place."""
    kept = []
    for field in config.fields:
        if field.name != "parameters" or not isinstance(field.value, Message):
            kept.append(field)
        elif _key(judged, field.value, {message.text("key") for message in config.messages("parameters")}):
            kept.append(field)
            _text(judged, field.value, target)
    config.fields = kept
    _missing(judged, config, target)


def _key(judged: Judged, parameter: Message, keys: set[str]) -> bool:
    """True if the parameter stays, under its right name."""
    name = parameter.text("key")
    program = "" if name in RUNTIME_KEYS or name in NEVER_KEYS else _built_by(name)
    if program:
        judged.add(
            "build-argument",
            f"`{name}` is an argument of {program}: the backend reads no such parameter",
            seen=f"line {parameter.line}: {name}",
            wanted="the value of the build, which the engine and its checkpoint hold",
            attempt=f"remove it here, and give --{name} to {program}",
        )
        return False
    instead = RENAMED_KEYS.get(name) or ("" if name in NEVER_KEYS else slip_of(name, RUNTIME_KEYS))
    if name in RUNTIME_KEYS or not (instead or name in NEVER_KEYS):
        _unread(judged, parameter, name)
        return True
    why = NEVER_KEYS.get(name) or ("a template's variable has that name" if name in RENAMED_KEYS else "a slip")
    judged.add(
        "unknown-key",
        f"the tensorrtllm backend reads no parameter `{name}`: {why}",
        seen=f"line {parameter.line}: {name}",
        wanted=f"one of {len(RUNTIME_KEYS)} keys by its exact name",
        attempt=f'key: "{instead}"' if instead else "remove it",
    )
    if not instead or instead in keys:
        return False
    parameter.set("key", f'"{instead}"')
    return True


def _built_by(name: str) -> str:
    """The program with this parameter as a build-time flag; empty without such a program."""
    for program, tables in ENGINE_MAKERS.items():
        if any(table.find(f"--{name}") for table in tables()):
            return program
    row = MISQUOTED[BUILD].get(f"--{name}")
    return BUILD if row and row.kind == REMOVED else ""


def _unread(judged: Judged, parameter: Message, name: str) -> None:
    if name not in RUNTIME_KEYS:
        judged.know(
            "unread-key",
            f"`{name}` is not among the keys the backend was seen to read",
            seen=f"line {parameter.line}: {name}",
            wanted=f"one of {len(RUNTIME_KEYS)} keys by its exact name",
            attempt="compare with /app/all_models/inflight_batcher_llm of the image that serves",
        )


def _text(judged: Judged, parameter: Message, target: Target) -> None:
    key = RUNTIME_KEYS.get(parameter.text("key"), RuntimeKey(name=parameter.text("key")))
    values = parameter.messages("value")
    text = values[0].text("string_value") if values else ""
    wanted = "" if text.startswith(("${", "__", "$")) else _wanted(key, text, target)
    if wanted:
        judged.add(
            "value-not-offered",
            f"`{key.name}` does not take `{text}`",
            seen=f"line {parameter.line}: {text}",
            wanted=wanted,
            attempt=f'string_value: "{_near(key, text, target)}"',
        )
        if values:
            values[0].set("string_value", f'"{_near(key, text, target)}"')
    if text.startswith("__"):
        judged.add(
            "unfilled-hole",
            f"`{text}` is a placeholder that was not filled in",
            seen=f"line {parameter.line}: {key.name} {text}",
            wanted=f"a {key.kind}",
            attempt='key: "max_tokens_in_paged_kv_cache" bounds the cache in tokens, whoever loads first'
            if "fraction" in key.name
            else f"fill {key.name}",
        )


def _wanted(key: RuntimeKey, text: str, target: Target) -> str:
    """The values that the key takes if `text` is not one of them; else empty."""
    if key.choices and text not in choices_of(key, target.trtllm):
        return f"one of {', '.join(word for word in choices_of(key, target.trtllm) if word)}"
    if key.kind == "bool" and text not in BOOLEANS and text:
        return "true or false"
    if key.kind == "number" and text and not text.lstrip("-").isdecimal():
        return "a whole number"
    if key.kind == "fraction" and text and not _is_fraction(text):
        return "a number from 0 to 1"
    return ""


def _near(key: RuntimeKey, text: str, target: Target) -> str:
    if key.choices:
        words = [word for word in choices_of(key, target.trtllm) if word]
        return nearest(text, words) or words[0]
    return {"bool": "true", "fraction": "0.9"}.get(key.kind, "")


def _is_fraction(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _missing(judged: Judged, config: Message, target: Target) -> None:
    keys = {message.text("key") for message in config.messages("parameters")}
    for key in mandatory_keys(target.trtllm):
        if key.name in keys:
            continue
        judged.add(
            "missing-key",
            f"the backend of TensorRT-LLM {target.trtllm} does not load without the parameter `{key.name}`",
            seen="not given",
            wanted=f'key: "{key.name}"' + ("" if key.fill else ", which may be empty"),
            attempt=f'parameters {{ key: "{key.name}" value: {{ string_value: "{key.fill}" }} }}',
        )
        value, parameter = Message(), Message()
        value.set("string_value", f'"{key.fill}"')
        parameter.set("key", f'"{key.name}"')
        parameter.set("value", value)
        config.fields.append(Field("parameters", parameter, config.line))
