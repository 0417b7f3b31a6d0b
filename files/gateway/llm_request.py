"""A request to an LLM, independent of the engine: Triton gets it as tensors, other engines as a completion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.sampling import Sampling
from gateway.tensors import Input, boolean, int32s, strings


@dataclass(frozen=True)
class LlmRequest:
    """A prompt as ids, its sampling settings, and the most tokens of the answer."""

    prompt: Sequence[int]
    sampling: Sampling
    max_tokens: int
    streams: bool = False
    adapter: str = ""
    salt: str = ""
    """Salt that keeps cached prefixes of tenants apart; "" for a common cache."""

    def tensors(self) -> list[Input]:
        """The inputs of the slot's contract."""
        inputs = [int32s("prompt_token_ids", self.prompt), *self.sampling.tensors(self.max_tokens)]
        inputs += [boolean("streaming", True)] if self.streams else []
        texts = (("lora_name", self.adapter), ("cache_salt", self.salt))
        return inputs + [strings(name, [text]) for name, text in texts if text]
