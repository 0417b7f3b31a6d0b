"""The LLM slot on a real card: the files here lie in the image beside the stand-in's `tensorrt_llm/llm.py`.

Beside torch and numpy, and what those two require, they import the distributions below: seen with transformers 5.17 in
a Python that had nothing else.
"""

from __future__ import annotations

import shutil
from pathlib import Path

PACKAGES = (
    "transformers",
    "tokenizers",
    "safetensors",
    "huggingface_hub",
    "regex",
    "packaging",
    "tqdm",
    "pyyaml",
    "filelock",
    "httpx",
    "httpcore",
    "h11",
    "certifi",
    "idna",
)


def lay(packages: Path) -> None:
    """`packages/tensorrt_llm`, the stand-in's, answers with a network from now on."""
    for file in Path(__file__).parent.glob("network*.py"):
        shutil.copy(file, packages / "tensorrt_llm" / file.name)
