"""Between Triton's tensors and plain Python values (rehearsal stand-in for the helpers of the llmapi model)."""

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
    """(settings for Triton, arguments of LLM) from model.yaml of the served version, or what LLM_CONFIG_PATH names."""
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
    """The one value of an optional input."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        return otherwise
    values = tensor.as_numpy().reshape(-1)
    return kind(values[0]) if values.size else otherwise


def strings(request, name):
    """All values of a string input."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else [value.decode() for value in tensor.as_numpy().reshape(-1)]


def sampling(request):
    """The sampling parameters the request names."""
    named = {name: scalar(request, f"sampling_param_{name}", kind) for name, kind in SAMPLING.items()}
    chosen = {name: value for name, value in named.items() if value is not None}
    chosen["exclude_input_from_output"] = scalar(request, "sampling_param_exclude_input_from_output", bool, False)
    stops = strings(request, "sampling_param_stop")
    return {**chosen, "stop": stops} if stops else chosen


def response(request, outputs):
    """A response: every sequence's whole text so far, and what else the request asked for, all of it as text."""
    tensors = [pb_utils.Tensor("text_output", np.array([output.text.encode() for output in outputs], dtype=STRINGS))]
    for name in ("finish_reason", "stop_reason", "cumulative_logprob"):
        if scalar(request, f"return_{name}", bool, False):
            texts = [str(getattr(output, name)) for output in outputs]
            tensors.append(pb_utils.Tensor(name, np.array(texts, dtype=STRINGS)))
    return pb_utils.InferenceResponse(output_tensors=tensors)


def published(model, computed_by):
    """A metric that tells clients what computes: a response of Triton 2.51 has no parameters. It lives while kept."""
    family = pb_utils.MetricFamily(
        name="rehearsal_stand_in", description="What stands in for what", kind=pb_utils.MetricFamily.GAUGE
    )
    metric = family.Metric(labels={"model": model, "computed_by": computed_by})
    metric.set(1)
    return family, metric


def tell_held(model, held_tokens, ended):
    """Until `ended` a metric says twice a second how many tokens the cache holds for the requests in work."""
    family = pb_utils.MetricFamily(
        name="rehearsal_stand_in_held_tokens", description="Tokens in the cache", kind=pb_utils.MetricFamily.GAUGE
    )
    metric = family.Metric(labels={"model": model})
    while not ended.wait(0.5):
        metric.set(held_tokens())


def error(text):
    """A response that is an error, and has a text besides."""
    tensor = pb_utils.Tensor("text_output", np.array([b"N/A"], dtype=STRINGS))
    return pb_utils.InferenceResponse(output_tensors=[tensor], error=pb_utils.TritonError(text))
