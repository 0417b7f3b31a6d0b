"""How an answer is sampled (rehearsal stand-in): the fields that are used here, every other name refused."""

from dataclasses import dataclass


@dataclass(kw_only=True)
class SamplingParams:
    """A subset of the real fields, under their names."""

    end_id: int = None
    pad_id: int = None
    max_tokens: int = 32
    stop: list = None
    stop_token_ids: list = None
    top_k: int = None
    top_p: float = None
    temperature: float = None
    seed: int = None

    def given(self):
        """What was said, for a stand-in's own sampling."""
        named = ("max_tokens", "seed", "top_p", "temperature", "stop")
        return {name: getattr(self, name) for name in named if getattr(self, name) is not None}
