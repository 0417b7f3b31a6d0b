"""An encoder's parameters in config.pbtxt: names, defaults and bounds."""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .errors import CheckpointError

DTYPES = ("fp32", "fp16", "bf16")
TASKS = ("search_query", "search_document", "classification", "clustering")


@dataclass(frozen=True)
class Settings:
    """An encoder's parsed parameters; every value is a string in config.pbtxt."""

    model_path: str
    """Directory with config.json, tokenizer.json and the safetensors; 1_Pooling/config.json is read if present."""
    device: str = "cuda:0"
    """`cuda:<index>` or `cpu`. A parameter, because KIND_GPU would not place a Python model anyway."""
    dtype: str = "fp16"
    """fp32, fp16 or bf16. fp16 is far more exact than bf16 at the same speed; router and head stay fp32 in both."""
    products: str = ""
    """`fp8`: the dense products of an fp16 or bf16 network on CUDA in 8 bits, faster and less exact (float8.py)."""
    max_tokens: int = 0
    """Longest sequence, special tokens included. 0: sentence_bert_config.json's max_seq_length, else 512."""
    max_batch_tokens: int = 16384
    """Tokens of one forward pass, without padding; limits the workspace memory and the duration of a pass."""
    streams: int = 1
    """Number of concurrent full passes on a CUDA device, each with its own workspace (device.py)."""
    max_items: int = 1024
    """Largest number of texts or passages of a request, over all rows; more is INVALID_ARG."""
    default_task: str = ""
    """Prefix of requests that name no task; "" means search_document. Only families with prefixes accept a task."""
    prefixes: str = ""
    """JSON object with the model's prefix for each task; "" takes the family's prefixes."""
    memory_mib: int = 0
    """Limit of this process's CUDA allocations, without the context. 0: no cap. Not used on cpu."""
    dimensions: int = 0
    """Width of the vectors in the plan; a checkpoint with another width is an error at load. 0: not checked."""

    least_dimensions: int = 0
    """Smallest number of values that a request may shorten a vector to (Matryoshka). 0: not known, so 1 is accepted."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "Settings":
        """Settings from config.pbtxt's parameters; UPPER_CASE keys belong to Triton and are ignored.

        Raises: CheckpointError for an unknown name, a value out of range, or contradictory values.
        """
        mine = {key: value for key, value in parameters.items() if not key.isupper()}
        known = {field.name: field.type for field in fields(cls)}
        for key in mine:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
                raise CheckpointError(f"config.pbtxt: unknown parameter `{key}`; {hint}")
        if not mine.get("model_path"):
            raise CheckpointError("config.pbtxt: parameter `model_path` is missing")
        values: dict[str, Any] = {key: _number(key, text) if known[key] is int else text for key, text in mine.items()}
        settings = cls(**values)
        settings._check()
        return settings

    def task_prefixes(self) -> dict[str, str]:
        """The prefix of each task in `prefixes`.

        Raises: CheckpointError unless it is a JSON object of known tasks and texts.
        """
        try:
            prefixes = json.loads(self.prefixes or "{}")
        except ValueError as error:
            raise CheckpointError(f"config.pbtxt: prefixes is no JSON: {error}") from None
        if not isinstance(prefixes, dict) or not all(isinstance(text, str) for text in prefixes.values()):
            raise CheckpointError("config.pbtxt: prefixes is no JSON object of texts")
        for task in prefixes:
            _one_of("a task in prefixes", task, TASKS)
        return prefixes

    def _check(self) -> None:
        _one_of("dtype", self.dtype, DTYPES)
        _one_of("products", self.products, ("", "fp8"))
        if self.products and (self.device == "cpu" or self.dtype == "fp32"):
            raise CheckpointError("config.pbtxt: products is `fp8`; that needs a CUDA device, and dtype fp16 or bf16")
        _one_of("default_task", self.default_task, ("", *TASKS))
        if not re.fullmatch(r"cpu|cuda:\d+", self.device):
            raise CheckpointError(f"config.pbtxt: device is `{self.device}`; wanted `cpu` or `cuda:<index>`")
        if min(self.max_items, self.max_batch_tokens, self.streams) < 1:
            raise CheckpointError("config.pbtxt: max_items, max_batch_tokens and streams must be at least 1")


def _number(key: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,12}", value):
        raise CheckpointError(f"config.pbtxt: {key} is `{value}`; wanted a whole number, 0 or more")
    return int(value)


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise CheckpointError(f"config.pbtxt: {key} is `{value}`; wanted one of {', '.join(filter(None, allowed))}")
