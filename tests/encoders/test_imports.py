"""What the package needs to run: nothing a Triton container lacks, and no Triton."""

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "files" / "encoders"


def test_only_torch_numpy_tokenizers_and_safetensors_are_imported() -> None:
    """transformers above all: its own `nomic_bert` would build another network without an error."""
    roots: set[str] = set()
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                roots.add(str(node.module).split(".")[0])
    assert roots - sys.stdlib_module_names == {"torch", "numpy", "tokenizers", "safetensors", "triton"}
