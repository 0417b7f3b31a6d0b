"""The LLM slot on a real card: these files join the stand-in's `tensorrt_llm/llm.py` in the image.

Besides torch, numpy and their dependencies, they import the distributions below, as tested with transformers 5.17 in a
Python without other packages.
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
    """Makes the stand-in's `packages/tensorrt_llm` answer with a network."""
    for file in Path(__file__).parent.glob("network*.py"):
        shutil.copy(file, packages / "tensorrt_llm" / file.name)
