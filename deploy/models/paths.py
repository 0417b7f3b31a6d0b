"""Chooses the backend of a model by its architecture and the release, with the reason.

The operator never has to guess it.
"""

from dataclasses import dataclass

from deploy.catalog import ENGINE_ENDS_WITH, LAST_WITH_ENGINES, RELEASES, Architecture
from deploy.catalog.releases import first_offered
from deploy.catalog.versions import at_least


@dataclass(frozen=True)
class Choice:
    """A backend, or the reason against all backends. `path` is empty if no backend serves the model.

    `reason` is one sentence in both cases; `attempt` is the text to type without a path.
    """

    path: str
    reason: str
    attempt: str = ""
    kind: str = ""


def choose_path(wish: str, architecture: Architecture, trtllm: str) -> Choice:
    """The path of one model under TensorRT-LLM `trtllm` (empty: the image has none)."""
    if architecture.kind in ("embedder", "reranker"):
        return _encoder_path(wish, architecture)
    if wish == "python":
        return Choice(
            "",
            "the python path serves encoders; a generative model under it would decode one request at a time",
            'path="auto"',
            "path-python-for-llm",
        )
    return _engine_path(architecture, trtllm) if wish == "engine" else _pytorch_path(wish, architecture, trtllm)


def _encoder_path(wish: str, architecture: Architecture) -> Choice:
    if wish in ("auto", "python"):
        return Choice("python", f"TensorRT-LLM serves no {architecture.name}; Triton's Python backend does")
    return Choice(
        "",
        f"TensorRT-LLM has neither an engine nor a PyTorch model for {architecture.name}",
        'path="auto"',
        "path-for-encoder",
    )


def _pytorch_path(wish: str, architecture: Architecture, trtllm: str) -> Choice:
    since = architecture.pytorch_since
    if has_pytorch(architecture, trtllm):
        return Choice(
            "pytorch", f"{architecture.name} runs on TensorRT-LLM's PyTorch backend since {since}; this is {trtllm}"
        )
    if has_engine(architecture, trtllm):
        why = f"{architecture.name} since {since}, and this is {trtllm}" if since else f"no {architecture.name}"
        if wish == "auto":
            return Choice("engine", f"the PyTorch backend has {why}: a TensorRT engine is the only path")
        return Choice("", f"TensorRT-LLM's PyTorch backend has {why}", 'path="engine"', "no-pytorch")
    newer = first_offered(since)
    if since and at_least(RELEASES[newer].trtllm, since):
        return Choice(
            "",
            f"{architecture.name} needs TensorRT-LLM {since} for the PyTorch backend; the image has {trtllm or 'none'}",
            f'release="{newer}"',
            "release-too-old-for-model",
        )
    if not architecture.engine and wish == "auto":
        return Choice("", f"TensorRT-LLM serves no {architecture.name}: {architecture.note}", "", "no-pytorch")
    return _engine_path(architecture, trtllm)


def has_pytorch(architecture: Architecture, trtllm: str) -> bool:
    """True if this TensorRT-LLM's PyTorch backend serves this architecture."""
    since = architecture.pytorch_since
    return bool(since and trtllm) and at_least(trtllm, since)


def has_engine(architecture: Architecture, trtllm: str) -> bool:
    """True if this TensorRT-LLM builds engines of this architecture."""
    first = architecture.engine_since or "0"
    return architecture.engine and bool(trtllm) and at_least(ENGINE_ENDS_WITH, trtllm) and at_least(trtllm, first)


def _engine_path(architecture: Architecture, trtllm: str) -> Choice:
    if not architecture.engine:
        why = architecture.note or "it is not in TensorRT-LLM's engine map"
        return Choice("", f"{architecture.name} has no TensorRT engine: {why}", 'path="auto"', "no-engine")
    if not trtllm or not at_least(ENGINE_ENDS_WITH, trtllm):
        return Choice(
            "",
            f"TensorRT-LLM {trtllm or '(none)'} has no engine path: {ENGINE_ENDS_WITH} was the last with it",
            'path="auto"' if architecture.pytorch_since else f'release="{LAST_WITH_ENGINES}"',
            "engine-removed",
        )
    if not has_engine(architecture, trtllm):
        return Choice(
            "",
            f"{architecture.name} has a TensorRT engine since {architecture.engine_since}; this is {trtllm}",
            f'release="{first_offered(architecture.engine_since)}"',
            "release-too-old-for-model",
        )
    return Choice("engine", f"asked for: {architecture.name} is compiled for this GPU by TensorRT-LLM {trtllm}")
