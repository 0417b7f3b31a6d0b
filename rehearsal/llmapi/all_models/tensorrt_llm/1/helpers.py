"""Converts between Triton's tensors and Python values (rehearsal stand-in for the helpers of the llmapi model)."""

import os
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
import yaml

SAMPLING = {
    "best_of": int, "temperature": float, "top_k": int, "top_p": float, "frequency_penalty": float,
    "presence_penalty": float, "max_tokens": int, "seed": int, "return_perf_metrics": bool,
}  # fmt: skip
STRINGS = np.object_


def read_configuration():
    """Returns (settings for Triton, arguments of LLM) from the served version's model.yaml or LLM_CONFIG_PATH."""
    path = Path(pb_utils.get_model_dir(), os.environ.get("LLM_CONFIG_PATH", "model.yaml"))
    arguments = yaml.safe_load(path.read_text())
    triton = arguments.pop("triton_config", None)
    if triton is None:
        raise ValueError(f"{path}: triton_config is missing")
    for key in ("max_batch_size", "decoupled"):
        if key not in triton:
            raise KeyError(key)
    return triton, arguments


def scalar(request, name, kind, otherwise=None):
    """Returns the one value of an optional input."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        return otherwise
    values = tensor.as_numpy().reshape(-1)
    return kind(values[0]) if values.size else otherwise


def strings(request, name):
    """Returns all values of a string input."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else [value.decode() for value in tensor.as_numpy().reshape(-1)]


def sampling(request):
    """Returns the sampling parameters of the request."""
    named = {name: scalar(request, f"sampling_param_{name}", kind) for name, kind in SAMPLING.items()}
    chosen = {name: value for name, value in named.items() if value is not None}
    chosen["exclude_input_from_output"] = scalar(request, "sampling_param_exclude_input_from_output", bool, False)
    stops = strings(request, "sampling_param_stop")
    return {**chosen, "stop": stops} if stops else chosen


def response(request, outputs):
    """Returns a response with each sequence's whole text so far and the other requested outputs, all as text."""
    tensors = [pb_utils.Tensor("text_output", np.array([output.text.encode() for output in outputs], dtype=STRINGS))]
    for name in ("finish_reason", "stop_reason", "cumulative_logprob"):
        if scalar(request, f"return_{name}", bool, False):
            texts = [str(getattr(output, name)) for output in outputs]
            tensors.append(pb_utils.Tensor(name, np.array(texts, dtype=STRINGS)))
    return pb_utils.InferenceResponse(output_tensors=tensors)


def published(model, computed_by):
    """Returns a metric that names the program; it exists as long as it is referenced."""
    family = pb_utils.MetricFamily(
        name="rehearsal_stand_in", description="What stands in for what", kind=pb_utils.MetricFamily.GAUGE
    )
    metric = family.Metric(labels={"model": model, "computed_by": computed_by})
    metric.set(1)
    return family, metric


def tell_held(model, held_tokens, ended):
    """Sets a metric of the cached tokens of running requests twice a second until `ended`."""
    family = pb_utils.MetricFamily(
        name="rehearsal_stand_in_held_tokens", description="Tokens in the cache", kind=pb_utils.MetricFamily.GAUGE
    )
    metric = family.Metric(labels={"model": model})
    while not ended.wait(0.5):
        metric.set(held_tokens())


def error(text):
    """Returns an error response with an additional text."""
    tensor = pb_utils.Tensor("text_output", np.array([b"N/A"], dtype=STRINGS))
    return pb_utils.InferenceResponse(output_tensors=[tensor], error=pb_utils.TritonError(text))
