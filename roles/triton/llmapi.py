"""An LLM on the PyTorch path in the model repository: the image's `llmapi` model, with the tensors it takes and gives.

The tensors are the contract between its model.py and the config.pbtxt we write for it: only what both TensorRT-LLM 1.1
and 1.2 have; later ones add images and adapters, which are not served here. The server runs with auto-completion off,
so what is not named here does not exist.
Source: TensorRT-LLM triton_backend/all_models/llmapi/tensorrt_llm/1/helpers.py, read 2026-11.
"""

from __future__ import annotations

import yaml

from deploy.slice import ModelSlice
from roles.texts import HERE
from roles.triton.loaded import Loaded
from roles.triton.templates import rendered

Tensor = tuple[str, str, int]

OPTIONAL_INPUTS: tuple[Tensor, ...] = (
    ("streaming", "BOOL", 1),
    ("sampling_param_best_of", "INT32", 1),
    ("sampling_param_temperature", "FP32", 1),
    ("sampling_param_top_k", "INT32", 1),
    ("sampling_param_top_p", "FP32", 1),
    ("sampling_param_frequency_penalty", "FP32", 1),
    ("sampling_param_presence_penalty", "FP32", 1),
    ("sampling_param_max_tokens", "INT32", 1),
    ("sampling_param_stop", "STRING", -1),
    ("sampling_param_seed", "UINT64", 1),
    ("sampling_param_exclude_input_from_output", "BOOL", 1),
    ("sampling_param_return_perf_metrics", "BOOL", 1),
    ("return_finish_reason", "BOOL", 1),
    ("return_stop_reason", "BOOL", 1),
    ("return_cumulative_logprob", "BOOL", 1),
    ("stop", "BOOL", 1),
)

OUTPUTS: tuple[Tensor, ...] = (
    ("text_output", "STRING", -1),
    ("finish_reason", "STRING", -1),
    ("stop_reason", "STRING", -1),
    ("cumulative_logprob", "FP32", -1),
    ("kv_cache_reused_block", "INT32", -1),
    ("kv_cache_missed_block", "INT32", -1),
    ("kv_cache_alloc_new_blocks", "INT32", -1),
    ("kv_cache_alloc_total_blocks", "INT32", -1),
    ("kv_cache_hit_rate", "FP32", -1),
    ("arrival_time_ns", "INT64", 1),
    ("first_scheduled_time_ns", "INT64", 1),
    ("first_token_time_ns", "INT64", 1),
    ("last_token_time_ns", "INT64", 1),
    ("acceptance_rate", "FP32", 1),
    ("total_accepted_draft_tokens", "INT32", 1),
    ("total_draft_tokens", "INT32", 1),
)


def llmapi(model: ModelSlice) -> Loaded:
    """What Triton loads for a planned LLM of the PyTorch path."""
    config = rendered(
        "llm.pbtxt.j2",
        name=model.name,
        decoupled=model.decoupled,
        max_running=model.settings["max_batch_size"],
        max_queue_size=model.max_queue_size,
        inputs=OPTIONAL_INPUTS,
        outputs=OUTPUTS,
    )
    files = {
        "config.pbtxt": config,
        "1/model.yaml": _model_yaml(model),
        "1/model.py": (HERE / "files" / "llm" / "llmapi.py").read_bytes(),
    }
    return Loaded((model.name,), {f"{model.name}/{path}": content for path, content in files.items()})


def _model_yaml(model: ModelSlice) -> bytes:
    """All keys but `triton_config` become arguments of TensorRT-LLM's LLM class."""
    return str(yaml.safe_dump(model.settings, sort_keys=False)).encode()
