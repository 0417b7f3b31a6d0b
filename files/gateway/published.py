"""The files published with an LLM's weights: tokenizer, chat template, sampling defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "o200k_base.tiktoken",
)
SAMPLED = ("temperature", "top_p", "top_k")
"""Sampling defaults taken from the weights' authors. The authors' penalties and `min_p` are left out: releases
without these settings would refuse every request."""


def knows_chats(folder: Path) -> bool:
    return bool(source_of(folder, read_json(folder / "tokenizer_config.json")))


def source_of(folder: Path, config: Mapping[str, Any]) -> str:
    """The chat template: the file beside the tokenizer, else the configuration's (the default of several); else ""."""
    if (file := folder / "chat_template.jinja").exists():
        return file.read_text("utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return template if isinstance(template, str) else ""


def defaults_of(folder: Path) -> dict[str, float]:
    """The authors' sampling settings from generation_config.json; none unless it sets `do_sample`."""
    file = folder / "generation_config.json"
    config = read_json(file) if file.exists() else {}
    names = SAMPLED if config.get("do_sample") else ()
    return {name: float(config[name]) for name in names if isinstance(config.get(name), (int, float))}


def content(token: Any) -> str | None:
    """The text of a token in tokenizer_config.json, if it is a text or an object."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    value = json.loads(path.read_text("utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path}: no JSON object")
    return value


def stamps(folder: Path) -> list[tuple[int, int] | None]:
    """A value that differs once one of the files was replaced, written, added or removed."""
    paths = [folder / name for name in FILES]
    return [(path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else None for path in paths]
