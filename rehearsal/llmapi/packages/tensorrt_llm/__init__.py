"""Stand-in of tensorrt_llm 1.2.1: its version, its LLM arguments, and the import defect of images 26.03 to 26.07.

rehearsal stand-in. The real package imports a name that the `openai` package of those images lacks; a newer `openai`
repairs it. The stand-in reads the defining file instead of importing it, because that package's dependencies are not in
this image.
"""

from importlib.util import find_spec as _find_spec
from pathlib import Path as _Path

__version__ = "1.2.1"


def _require_openai():
    module = "openai.types.responses.response_content_part_added_event"
    spec = _find_spec("openai")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'openai'", name="openai")
    path = _Path(spec.submodule_search_locations[0]).joinpath(*module.split(".")[1:]).with_suffix(".py")
    if "class PartReasoningText" not in path.read_text():
        message = f"cannot import name 'PartReasoningText' from '{module}' ({path})"
        raise ImportError(message, name=module, path=str(path))


_require_openai()
print(f"[TensorRT-LLM] TensorRT-LLM version: {__version__} (rehearsal stand-in)", flush=True)

if _find_spec(f"{__name__}.network"):  # a machine with a real GPU: rehearsal/real_gpu/llm
    from .network import LLM
else:
    from .llm import LLM
from .sampling_params import SamplingParams  # noqa: E402

__all__ = ["LLM", "SamplingParams", "__version__"]
