"""The flags of TensorRT-LLM's programs, read from their source independently of the catalog's rows.

The rehearsal's stand-ins print their `--help` from these flags (`llmapi/upstream-flags.json`), so that an error in the
catalog shows when the product asks the image. Names, types, defaults and choices come from the syntax tree; the source
is neither run nor kept.

    python -m rehearsal.upstream_flags 1.2=/path/to/TensorRT-LLM@commit … > rehearsal/llmapi/upstream-flags.json
"""

from __future__ import annotations

import ast
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BUILD = "tensorrt_llm/commands/build.py"
PLUGIN = "tensorrt_llm/plugin/plugin.py"
QUANTIZE = "examples/quantization/quantize.py"
CONVERT = "examples/{family}/convert_checkpoint.py"
FAMILIES = ("gpt", "llama", "qwen")
# Where build.py's defaults and choices come from.
VALUES = (
    "tensorrt_llm/builder.py",
    "tensorrt_llm/logger.py",
    "tensorrt_llm/lora_manager.py",
    "tensorrt_llm/auto_parallel/cluster_info.py",
)
PLUGINS = "Plugin config arguments"
SUPPRESSED = object()

Flag = dict[str, Any]


class Unread(Exception):
    """A value that exists only in a running program."""


class Names:
    """Constants of modules and classes by their dotted name."""

    def __init__(self, *trees: ast.Module) -> None:
        self.values: dict[str, Any] = {"argparse.SUPPRESS": SUPPRESSED}
        for tree in trees:
            self._remember(tree.body, "")

    def _remember(self, body: list[ast.stmt], prefix: str) -> None:
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                self._remember(statement.body, f"{statement.name}.")
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value:
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                with contextlib.suppress(Unread):
                    self.values[prefix + ast.unparse(target)] = self.value(_default(statement.value))

    def value(self, node: ast.expr) -> Any:
        """Returns the constant that an expression names; for a dictionary its keys. Raises Unread for a computed
        value."""
        match node:
            case ast.Constant():
                return node.value
            case ast.List() | ast.Tuple():
                return [self.value(element) for element in node.elts]
            case ast.Dict(keys=keys, values=values):
                return {self.value(key): self._or_none(value) for key, value in zip(keys, values, strict=True) if key}
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(node.operand)
            case ast.Name() | ast.Attribute() if ast.unparse(node) in self.values:
                return self.values[ast.unparse(node)]
            case ast.Call(func=ast.Attribute(value=owner, attr="keys")):
                return list(self.value(owner))
            case ast.Subscript(value=ast.Name(id="Literal")):
                return self.value(node.slice)
            case ast.Subscript(value=ast.Name(id="Optional")):
                return [*self.value(node.slice), None]
        raise Unread(ast.unparse(node))

    def _or_none(self, node: ast.expr) -> Any:
        with contextlib.suppress(Unread):
            return self.value(node)
        return None


def _default(node: ast.expr) -> ast.expr:
    """Returns the default of a dataclass's or pydantic's field, and any other expression unchanged."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("field", "Field"):
        return next((word.value for word in node.keywords if word.arg == "default"), node)
    return node


def arguments(tree: ast.Module, names: Names) -> dict[str, Flag]:
    """Returns every `add_argument` of a program with a literal flag, in its order."""
    titles = dict(_groups(tree))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_argument(node)]
    flags = {}
    for call in sorted(calls, key=lambda call: call.lineno):
        name, *aliases = [str(word.value) for word in call.args if isinstance(word, ast.Constant)]
        assert isinstance(call.func, ast.Attribute)
        title = titles.get(ast.unparse(call.func.value), "")
        words = {word.arg: word.value for word in call.keywords if word.arg}
        flags[name] = (
            _flag(words, names) | ({"aliases": aliases} if aliases else {}) | ({"group": title} if title else {})
        )
    return flags


def _is_argument(call: ast.Call) -> bool:
    named = isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
    return named and bool(call.args) and isinstance(call.args[0], ast.Constant)


def _groups(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr="add_argument_group"), args=[ast.Constant(value=title)]),
            ):
                yield name, str(title)


def _flag(words: dict[str, ast.expr], names: Names) -> Flag:
    """Returns the facts of a flag; `unread` names values that only a running program knows."""
    action = ast.literal_eval(words["action"]) if "action" in words else ""
    kind = ast.unparse(words["type"]) if "type" in words else "str"
    flag: Flag = {"type": "flag" if action == "store_true" else kind if kind in ("int", "float") else "str"}
    if action not in ("", "store_true"):
        flag["action"] = action
    for word in ("default", "choices", "nargs", "required"):
        if word not in words:
            continue
        try:
            value = names.value(words[word])
        except Unread:
            flag.setdefault("unread", []).append(word)
            continue
        flag |= {"suppressed": True} if value is SUPPRESSED else {word: value}
    return flag


def plugins(tree: ast.Module, names: Names) -> dict[str, Flag]:
    """Returns flags of `add_plugin_argument`: one for each field of PluginConfig that `cli_plugin_args` names."""
    (config,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "PluginConfig")
    is_pydantic = "BaseModel" in map(ast.unparse, config.bases)
    flags = {}
    for field in config.body:
        if not isinstance(field, ast.AnnAssign) or not field.value:
            continue
        name = ast.unparse(field.target).lstrip("_")
        if name in names.values["cli_plugin_args"]:
            default = names.value(_default(field.value))
            flags[f"--{name}"] = _plugin(name, field.annotation, default, is_pydantic, names) | {"group": PLUGINS}
    return flags


def _plugin(name: str, annotation: ast.expr, default: Any, is_pydantic: bool, names: Names) -> Flag:
    kind = ast.unparse(annotation)
    if kind == "bool":
        return {"type": "str", "default": "enable" if default else "disable", "choices": ["enable", "disable"]}
    if kind == "int":
        return {"type": "int", "default": default}
    if is_pydantic:
        options = names.value(annotation)
    else:
        options = names.values["PLUGIN_DTYPE_OPTIONS_MAP"].get(name, names.values["DEFAULT_PLUGIN_DTYPE_OPTIONS"])
    if not (is_pydantic and name == "gemm_plugin"):
        default = default or "disable"
    return {"type": "str", "default": default, "choices": [option or "disable" for option in options]}


def release(source: Path) -> dict[str, Any]:
    """Returns the flags of every program of that source tree; omits programs that the tree lacks."""
    trees = {
        name: ast.parse((source / name).read_text("utf-8"))
        for name in (BUILD, PLUGIN, QUANTIZE, *VALUES, *(CONVERT.format(family=family) for family in FAMILIES))
        if (source / name).exists()
    }
    names = Names(*trees.values())
    programs: dict[str, Any] = {"trtllm-build": arguments(trees[BUILD], names) | plugins(trees[PLUGIN], names)}
    if QUANTIZE in trees:
        programs["quantize.py"] = arguments(trees[QUANTIZE], names)
    for family in FAMILIES:
        if (name := CONVERT.format(family=family)) in trees:
            programs[f"convert_checkpoint.py of {family}"] = arguments(trees[name], names)
    return programs


def text(releases: dict[str, dict[str, Any]]) -> str:
    """Returns JSON with a line for each flag, so that a diff of two readings names the changed flags."""
    lines = []
    for name, programs in releases.items():
        parts = []
        for program, rows in programs.items():
            if program == "source":
                parts.append(f"  {json.dumps(program)}: {json.dumps(rows)}")
                continue
            body = ",\n".join(f"   {json.dumps(flag)}: {json.dumps(facts)}" for flag, facts in rows.items())
            parts.append(f"  {json.dumps(program)}: {{\n{body}\n  }}")
        lines.append(f" {json.dumps(name)}: {{\n" + ",\n".join(parts) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Prints the flags of the named trees (`release=directory@commit`)."""
    releases = {}
    for word in sys.argv[1:]:
        name, _, place = word.partition("=")
        directory, _, commit = place.partition("@")
        releases[name] = {"source": f"NVIDIA/TensorRT-LLM {commit}"} | release(Path(directory))
    sys.stdout.write(text(releases))


if __name__ == "__main__":
    main()
