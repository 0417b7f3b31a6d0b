"""Which backend serves a model, chosen from its architecture and the release, with the reason.

Never guessed by an operator.
"""

from __future__ import annotations

from dataclasses import dataclass

from deploy.catalog import ENGINE_ENDS_WITH, RELEASES, Architecture
from deploy.versions import at_least

ENGINE_NOT_YET = "engine builds are not in this release of enginehouse yet"


@dataclass(frozen=True)
class Choice:
    """`path` is empty where there is none.

    `reason` is one sentence either way; `attempt` what to type when there is none.
    """

    path: str
    reason: str
    attempt: str = ""
    kind: str = ""


def choose_path(asked: str, architecture: Architecture, trtllm: str) -> Choice:
    """The path of one model under TensorRT-LLM `trtllm` (empty: the image has none)."""
    if architecture.kind in ("embedder", "reranker"):
        return _encoder_path(asked, architecture)
    if asked == "python":
        return Choice(
            "",
            "the python path serves encoders; a generative model under it would decode one request at a time",
            'path="auto"',
            "path-python-for-llm",
        )
    return _engine_path(architecture, trtllm) if asked == "engine" else _pytorch_path(architecture, trtllm)


def _encoder_path(asked: str, architecture: Architecture) -> Choice:
    if asked in ("auto", "python"):
        return Choice("python", f"TensorRT-LLM serves no {architecture.name}; Triton's Python backend does")
    return Choice(
        "",
        f"TensorRT-LLM has neither an engine nor a PyTorch model for {architecture.name}",
        'path="auto"',
        "path-for-encoder",
    )


def _pytorch_path(architecture: Architecture, trtllm: str) -> Choice:
    since = architecture.pytorch_since
    if since and trtllm and at_least(trtllm, since):
        return Choice(
            "pytorch", f"{architecture.name} runs on TensorRT-LLM's PyTorch backend since {since}; this is {trtllm}"
        )
    if since:
        newer = _first_release(since)
        return Choice(
            "",
            f"{architecture.name} needs TensorRT-LLM {since} for the PyTorch backend; the image has {trtllm or 'none'}",
            f'release="{newer}"',
            "release-too-old-for-model",
        )
    return Choice(
        "",
        f"{architecture.name} has only the engine path, and {ENGINE_NOT_YET}",
        "another checkpoint",
        "engine-not-yet",
    )


def _engine_path(architecture: Architecture, trtllm: str) -> Choice:
    if not architecture.engine:
        why = architecture.note or "it is not in TensorRT-LLM's engine map"
        return Choice("", f"{architecture.name} has no TensorRT engine: {why}", 'path="auto"', "no-engine")
    if not trtllm or not at_least(ENGINE_ENDS_WITH, trtllm):
        return Choice(
            "",
            f"TensorRT-LLM {trtllm or '(none)'} has no engine path: {ENGINE_ENDS_WITH} was the last with it",
            'path="auto"',
            "engine-removed",
        )
    return Choice("", ENGINE_NOT_YET, 'path="auto"', "engine-not-yet")


def _first_release(trtllm: str) -> str:
    fitting = [row.name for row in RELEASES.values() if row.offered and at_least(row.trtllm, trtllm)]
    return min(fitting)
