"""An LLM on the PyTorch path in the model repository: the slot, which runs the engine of the image's `llmapi` model."""

from typing import Any, cast

import yaml

from deploy.slices.host import ModelSlice
from roles.triton.loaded import Loaded
from roles.triton.slot import slot


def llmapi(model: ModelSlice) -> Loaded:
    """Triton's model for a planned LLM of the PyTorch path."""
    files = slot(model.name, "llmapi.py", model.decoupled, _parameters(model)) | {"1/model.yaml": _model_yaml(model)}
    return Loaded((model.name,), {f"{model.name}/{path}": content for path, content in files.items()})


def _parameters(model: ModelSlice) -> dict[str, object]:
    """Parameters of model.py: its limit, the interval of cancellation checks, and the options for requests."""
    triton = cast(dict[str, Any], model.settings["triton_config"])
    parameters: dict[str, object] = {
        "max_running": model.settings["max_batch_size"],
        "max_queue_size": model.max_queue_size,
        "cancellation_check_period_ms": triton["cancellation_check_period_ms"],
        **({"cache_tokens": model.kv_cache_tokens} if model.kv_cache_tokens else {}),
    }
    return parameters | ({"guided_decoding": "true"} if "guided_decoding_backend" in model.settings else {})


def _model_yaml(model: ModelSlice) -> bytes:
    """Keys other than `triton_config` become arguments of TensorRT-LLM's LLM class."""
    return str(yaml.safe_dump(model.settings, sort_keys=False)).encode()
