"""The numbers with which a client steers sampling: one row each, for chats, completions, the slot and HTTP engines.

The row's name is the field of a request, the end of the input's name in the LLM slot's contract (`sampling_param_…`),
and the field in completions of vLLM and trtllm-serve.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_WHOLE = 2**31 - 1


@dataclass(frozen=True)
class SamplingNumber:
    """A number's range, and its neutral value, which changes no probability. In the slot it is INT32 or FP32."""

    low: float
    high: float
    neutral: float
    is_whole: bool = False


SAMPLING_NUMBERS = {
    "temperature": SamplingNumber(0, 2, 1.0),
    "top_p": SamplingNumber(0, 1, 1.0),
    "min_p": SamplingNumber(0, 1, 0.0),
    "frequency_penalty": SamplingNumber(-2, 2, 0.0),
    "presence_penalty": SamplingNumber(-2, 2, 0.0),
    "repetition_penalty": SamplingNumber(0.01, 10, 1.0),
    "top_k": SamplingNumber(-1, MOST_WHOLE, 0, is_whole=True),
}
