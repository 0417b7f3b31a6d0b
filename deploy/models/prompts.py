"""Prompts that a repository of sentence-transformers publishes, as the prefixes of the tasks that clients name.

`config_sentence_transformers.json` has them by names of its author. `encode_query` of sentence-transformers takes the
one called "query", `encode_document` the first of "document", "passage" and "corpus" (6.2.0, read 2026-11-27). Other
names of the same tasks were read on model cards. A prompt under any other name is reported, and given to no text.
"""

from collections.abc import Mapping
from typing import Any

FILE = "config_sentence_transformers.json"
KEY = "sentence_transformers"
"""The key under which a lock and a directory keep this part beside config.json's own."""
NAMES = {
    "search_query": ("query", "search_query", "retrieval.query", "retrieval-query", "s2p_query", "web_search_query"),
    "search_document": ("document", "passage", "corpus", "search_document", "retrieval.passage", "retrieval-document"),
    "classification": ("classification",),
    "clustering": ("clustering", "separation"),
}
"""Names of prompts by task, the likelier first; case is ignored."""
MOST_PROMPTS, MOST_CHARACTERS = 64, 2000


def kept_prompts(config: object) -> dict[str, Any]:
    """The part of the file that is read here; empty if it has no prompts."""
    prompts = config.get("prompts") if isinstance(config, Mapping) else None
    if not isinstance(config, Mapping) or not isinstance(prompts, Mapping) or len(prompts) > MOST_PROMPTS:
        return {}
    texts = {name: text for name, text in prompts.items() if _is_text(name) and _is_text(text)}
    if not any(texts.values()):
        return {}
    default = config.get("default_prompt_name")
    named = {"default_prompt_name": default} if isinstance(default, str) and default in texts else {}
    return {KEY: {"prompts": dict(sorted(texts.items())), **named}}


def prefixes_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The prefix of each task; empty without prompts of known names. Searching always has its two tasks."""
    prompts = _prompts(config)
    by_name = {name.lower(): text for name, text in reversed(prompts.items())}
    named = {task: [by_name[name] for name in names if name in by_name] for task, names in NAMES.items()}
    prefixes = {task: texts[0] for task, texts in named.items() if texts}
    if not any(prefixes.values()):
        return {}
    return {"search_query": "", "search_document": "", **prefixes}


def default_task_of(config: Mapping[str, Any]) -> str:
    """The task of the prompt that the repository uses without a named task; "" without such a prompt."""
    kept = kept_prompts(config.get(KEY)).get(KEY, {})
    default = str(kept.get("default_prompt_name", "")).lower()
    return next((task for task, names in NAMES.items() if default in names), "")


def other_prompts(config: Mapping[str, Any]) -> list[str]:
    """Names of prompts without a known task."""
    known = {name for names in NAMES.values() for name in names}
    return sorted(name for name, text in _prompts(config).items() if text and name.lower() not in known)


def _prompts(config: Mapping[str, Any]) -> dict[str, str]:
    return dict(kept_prompts(config.get(KEY)).get(KEY, {}).get("prompts", {}))


def _is_text(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= MOST_CHARACTERS
        and all(sign.isprintable() or sign in "\n\t" for sign in value)
    )
