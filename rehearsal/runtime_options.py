"""The options of `vllm serve` and `trtllm-serve`, read from their source independently of the catalog's rows.

The rehearsal's stand-ins parse their command lines by these options (llm_stand_in/options.json), so that an error in
the catalog shows when the product starts the program. Names and kinds come from the syntax tree; the source is neither
run nor kept.

    python -m rehearsal.runtime_options vllm=/path/to/site-packages/vllm trtllm-serve=/path/to/serve.py
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

SERVE = ("engine/arg_utils.py", "entrypoints/openai/cli_args.py")
FRONTEND = ("BaseFrontendArgs", "FrontendArgs")
VALUE, FLAG, SWITCH, LIST = "value", "flag", "switch", "list"
"""An option with a value, one without, one that also exists as `--no-OPTION`, and one with several values."""


def options_of_vllm(root: Path) -> dict[str, str]:
    """Returns (option, kind) of `vllm serve`: its parser's named arguments and its frontend's fields."""
    kinds = {name: kind for file in sorted((root / "config").glob("*.py")) for name, kind in fields(tree_of(file))}
    options: dict[str, str] = {}
    for file in SERVE:
        for call in calls(tree_of(root / file), "add_argument"):
            names = [name for name in texts(call) if name.startswith("--")]
            options |= {name: kind_of(call, kinds) for name in names}
    frontend = tree_of(root / SERVE[1])
    classes = [node for node in ast.walk(frontend) if isinstance(node, ast.ClassDef) and node.name in FRONTEND]
    for node in classes:
        options |= {f"--{name.replace('_', '-')}": kind for name, kind in fields(node)}
    return dict(sorted(options.items()))


def options_of_serve(file: Path) -> dict[str, str]:
    """Returns (option, kind) of `trtllm-serve serve`: the click options before its function."""
    decorators = [
        decorator
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef) and node.name == "serve"
        for decorator in node.decorator_list
    ]
    options: dict[str, str] = {}
    for call in (call for decorator in decorators for call in calls(decorator, "option")):
        is_flag = any(word.arg == "is_flag" and ast.unparse(word.value) == "True" for word in call.keywords)
        for name in texts(call):
            on, _, off = name.partition("/")
            options |= {word: FLAG if is_flag or off else VALUE for word in (on, off) if word.startswith("--")}
    return dict(sorted(options.items()))


def kind_of(call: ast.Call, kinds: dict[str, str]) -> str:
    """Returns the form of an argument of argparse: by its action, else by the type of its setting."""
    action = next((ast.unparse(word.value) for word in call.keywords if word.arg == "action"), "")
    if "store_true" in action:
        return FLAG
    if "BooleanOptionalAction" in action:
        return SWITCH
    settings = [node.value for word in call.keywords if word.arg is None for node in ast.walk(word.value)
                if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    return next((kinds[name] for name in settings if name in kinds), VALUE)


def fields(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yields (field, kind) of the classes in a tree: a boolean becomes a switch, and a list takes several words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = {name.id for name in ast.walk(node.annotation) if isinstance(name, ast.Name)}
            yield node.target.id, SWITCH if "bool" in words else LIST if "list" in words else VALUE


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Yields the calls of a function or method of this name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] == name:
            yield node


def texts(call: ast.Call) -> list[str]:
    """Returns the arguments of a call that are texts."""
    return [word.value for word in call.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def main(arguments: list[str]) -> int:
    """Prints the options of the named programs as JSON."""
    readers = {"vllm": options_of_vllm, "trtllm-serve": options_of_serve}
    pairs = (word.partition("=") for word in arguments)
    print(json.dumps({name: readers[name](Path(path)) for name, _, path in pairs}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
