"""Load on a gateway as an operator declares it, and the configuration of aiperf 0.13 that produces it.

Names and places of the settings were read in aiperf's schema and templates (0.13.0, 2026-11-23). The key is not among
the settings: aiperf takes it from its environment, so that neither `ps` nor a file shows it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

KEY_VARIABLE = "ENGINEHOUSE_BENCH_KEY"
Ask = Literal["chat", "embed", "rerank", "rerank-tei"]
KINDS: Mapping[str, str] = {"chat": "llm", "embed": "embedder", "rerank": "reranker", "rerank-tei": "reranker"}
TYPES: Mapping[str, str] = {
    "chat": "chat",
    "embed": "embeddings",
    "rerank": "cohere_rankings",
    "rerank-tei": "hf_tei_rankings",
}
WORKER_CLIENTS = 200
"""Clients per process of aiperf, whose own default is one process per core."""
WARM_UP = 8
"""Requests sent before the measurement; no figure counts them."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """A load. Each of the `clients` sends its next request after an answer; with `clients` 0, requests arrive at random
    (Poisson), `rate` a second.

    Lengths are tokens: of a prompt, of an answer, of a passage or text. The service level is in milliseconds: first
    token and gap between tokens for chats, the whole request for encoders. Goodput counts the requests within the
    service level.
    """

    clients: int = 8
    rate: float = 0.0
    seconds: float = 30.0
    prompt: int = 512
    answer: int = 128
    piece: int = 128
    texts: int = 32
    passages: int = 100
    cancel_percent: float = 0.0
    cancel_after_seconds: float = 0.5
    first_token_ms: float = 2500.0
    gap_ms: float = 100.0
    whole_ms: float = 500.0

    def name(self, ask: str) -> str:
        """The load's name in tables."""
        how = f"{self.rate:g} requests/s" if self.rate else f"{self.clients} clients"
        if ask == "chat":
            return f"chat {self.prompt}+{self.answer} tokens, {how}"
        if ask == "embed":
            return f"embed {self.piece} tokens, {self.texts} a request, {how}"
        return f"{ask} {self.piece} tokens, {self.passages} a request, {how}"

    def items(self, ask: str) -> int:
        return {"chat": 0, "embed": self.texts}.get(ask, self.passages)


def aiperf_config(load: Load, ask: str, model: str, url: str, tokenizer: str, has_key: bool) -> dict[str, Any]:
    """The configuration of one run, for `aiperf profile --config`."""
    endpoint: dict[str, Any] = {"url": url, "type": TYPES[ask], "timeout": 600}
    endpoint |= {"apiKey": f"${{{KEY_VARIABLE}}}"} if has_key else {}
    endpoint |= {"streaming": True, "useServerTokenCount": True} if ask == "chat" else {}
    return {
        "schemaVersion": "2.0",
        "randomSeed": 1,
        "benchmark": {
            "model": model,
            "endpoint": endpoint,
            "dataset": {"type": "synthetic", "entries": 200, **_content(load, ask)},
            "phases": [
                {
                    "name": "warmup",
                    "type": "concurrency",
                    "excludeFromResults": True,
                    "requests": WARM_UP,
                    "concurrency": min(max(load.clients, 1), WARM_UP),
                },
                {"name": "profiling", "duration": load.seconds, "gracePeriod": 60, **_pace(load)},
            ],
            "slos": _level(load, ask),
            "tokenizer": {"name": tokenizer},
            "runtime": {"workers": 1 + load.clients // WORKER_CLIENTS, "recordProcessors": 1},
        },
    }


def _content(load: Load, ask: str) -> dict[str, Any]:
    if ask == "chat":
        return {"prompts": {"isl": {"mean": load.prompt, "stddev": 0}, "osl": {"mean": load.answer, "stddev": 0}}}
    if ask == "embed":
        return {"prompts": {"isl": {"mean": load.piece, "stddev": 0}, "batchSize": load.texts}}
    return {
        "prompts": {"isl": {"mean": load.piece, "stddev": 0}},
        "rankings": {"passages": load.passages, "passageTokens": load.piece, "queryTokens": 16},
    }


def _pace(load: Load) -> dict[str, Any]:
    pace: dict[str, Any] = {"type": "concurrency", "concurrency": load.clients}
    if load.rate:
        pace = {"type": "poisson", "rate": load.rate}
    if load.cancel_percent:
        pace["cancellation"] = {"rate": load.cancel_percent, "delay": load.cancel_after_seconds}
    return pace


def _level(load: Load, ask: str) -> dict[str, float]:
    if ask == "chat":
        return {"time_to_first_token": load.first_token_ms, "inter_token_latency": load.gap_ms}
    return {"request_latency": load.whole_ms}
