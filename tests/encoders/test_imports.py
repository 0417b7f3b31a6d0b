"""The package imports only modules of a Triton container, and none of Triton; its functions declare their types."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "files" / "encoders"


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yields `module.function` and the function, for functions and methods outside kernels and protocols."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ast.parse(path.read_text())
        classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
        methods = [node for made in classes if "Protocol" not in map(ast.unparse, made.bases) for node in made.body]
        for node in [*module.body, *methods]:
            if isinstance(node, ast.FunctionDef) and "triton.jit" not in map(ast.unparse, node.decorator_list):
                yield f"{path.stem}.{node.name}", node


def is_public(function: ast.FunctionDef) -> bool:
    """Returns True if callers outside its module read the docstring."""
    return not function.name.startswith("_") or function.name in ("__call__", "__getitem__")


def test_only_torch_numpy_tokenizers_and_safetensors_are_imported() -> None:
    """transformers must not be imported: its own `nomic_bert` would build another network without an error."""
    roots: set[str] = set()
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                roots.add(str(node.module).split(".")[0])
    assert roots - sys.stdlib_module_names == {"torch", "numpy", "tokenizers", "safetensors", "triton"}


def test_every_function_outside_kernels_has_type_annotations() -> None:
    """mypy is not strict in the modules of kernels, whose parameters cannot say a type."""
    untyped = [
        name
        for name, function in functions()
        if function.returns is None
        or any(
            parameter.annotation is None and parameter.arg not in ("self", "cls")
            for parameter in [*function.args.args, *function.args.kwonlyargs]
        )
    ]
    assert untyped == []


def test_every_public_function_that_returns_a_tensor_says_its_shape() -> None:
    """The docstring has the shape in brackets, or says that any shape is returned unchanged."""
    silent = []
    for name, function in functions():
        words = ast.get_docstring(function) or ""
        gives_tensor = function.returns is not None and ast.unparse(function.returns) in ("Tensor", "States")
        if is_public(function) and gives_tensor and not ("[" in words or "any shape" in words):
            silent.append(name)
    assert silent == []


def test_every_public_function_that_raises_says_so() -> None:
    """The docstring has `Raises:`; errors of a private function are in the docstrings of its callers."""
    raising = [
        (name, function)
        for name, function in functions()
        if is_public(function) and any(isinstance(node, ast.Raise) for node in ast.walk(function))
    ]
    assert [name for name, function in raising if "Raises:" not in (ast.get_docstring(function) or "")] == []
