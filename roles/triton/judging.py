"""The replay of a server's LLM in the form of the host's swap; prompts and tasks are read on the control machine."""

from typing import Any

from deploy.io.local_paths import local_path
from deploy.rollout import replay
from deploy.slices.host import ServerSlice

MOST_STREAMS = 32


def replay_of(server: ServerSlice) -> dict[str, Any]:
    """Prompts, tasks and limits of the LLM that a swap compares; empty without a comparison.

    Validation has read the files: a server compares the first LLM that has a replay.
    """
    for model in server.models:
        if model.replay:
            limits = model.replay
            tasks = replay.tasks(_text(limits.tasks)) if limits.tasks else []
            return {
                "model": model.name,
                "prompts": replay.prompts(_text(limits.prompts)),
                "tasks": [{"prompt": prompt, "expected": expected} for prompt, expected in tasks],
                "max_tokens": limits.max_tokens,
                "equal_percent": limits.equal_percent,
                "minimum_percent": limits.minimum_percent,
                "streams": max(1, min(MOST_STREAMS, model.full_context_sequences or MOST_STREAMS)),
                "gpus": len(server.gpus),
            }
    return {}


def _text(path: str) -> str:
    return local_path(path).read_text("utf-8")
