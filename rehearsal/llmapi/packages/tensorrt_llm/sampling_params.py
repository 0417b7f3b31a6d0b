"""Sampling parameters of an answer (rehearsal stand-in): the real names; it refuses every other name."""

from dataclasses import dataclass, fields


@dataclass(kw_only=True)
class GuidedDecodingParams:
    """Constraints on an answer; at most one is set."""

    json: object = None
    regex: str = None
    grammar: str = None
    json_object: bool = False
    structural_tag: str = None

    def __post_init__(self):
        count = sum(bool(getattr(self, field.name)) for field in fields(self))
        if count > 1:
            raise ValueError(f"Only one guide can be used for a request, but got {count}.")


@dataclass(kw_only=True)
class SamplingParams:
    """A subset of the real fields, with their defaults."""

    end_id: int = None
    pad_id: int = None
    max_tokens: int = 32
    min_tokens: int = None
    stop: list = None
    stop_token_ids: list = None
    n: int = 1
    best_of: int = None
    top_k: int = None
    top_p: float = None
    min_p: float = None
    temperature: float = None
    seed: int = None
    frequency_penalty: float = None
    presence_penalty: float = None
    repetition_penalty: float = None
    logprobs: int = None
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    add_special_tokens: bool = True
    exclude_input_from_output: bool = True
    return_perf_metrics: bool = False
    guided_decoding: GuidedDecodingParams = None

    def __post_init__(self):
        self.best_of = self.best_of or self.n
        if self.best_of < self.n:
            raise ValueError(f"best_of ({self.best_of}) cannot be less than n ({self.n})")
        if self.best_of > 1 and self.top_k in (None, 1) and self.top_p in (None, 0.0):
            raise ValueError(
                "Greedy decoding in the LLM API does not allow multiple returns. Please set to best_of=1, "
                f"got best_of={self.best_of}."
            )

    def caller_values(self):
        """Returns the parameters that the caller set, for a stand-in's own sampling."""
        named = ("max_tokens", "seed", "top_p", "temperature", "stop")
        return {name: getattr(self, name) for name in named if getattr(self, name) is not None}
