"""Loads a host program as a module, from its file: they lie under files/ and are no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FILES = Path(__file__).resolve().parents[2] / "files"


def program(path: str) -> ModuleType:
    """`files/<path>` as a module of its own."""
    name = "host_program_" + Path(path).stem
    spec = importlib.util.spec_from_file_location(name, FILES / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
