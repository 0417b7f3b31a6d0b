"""Requests that several servers of one LLM get alike, sent by vLLM's own benchmark, and the figures of each.

The prompts come from a file. vLLM's random prompts would differ: its benchmark shortens them by the `/tokenize` of a
server that answers it without a key, as the engine alone does. The engine's own counters say how many tokens it read,
wrote, and took from its cache.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENGINE, GATEWAY, PEER = "engine", "gateway", "litellm"
PROMPT_TOKENS, ANSWER_TOKENS = 512, 128
SAMPLING = {"--temperature": 0.6, "--top-p": 0.9}
"""Values of the weights' generation_config.json, which the gateway sends for requests without their own. The engine
alone would sample from all tokens, which took 7 % less time for a token of 16 streams (H100, 2026-11-27)."""
FIGURES = {
    "requests_per_second": "request_throughput",
    "tokens_per_second": "output_throughput",
    "first_token_ms_p50": "median_ttft_ms",
    "first_token_ms_p99": "p99_ttft_ms",
    "token_ms_p50": "median_tpot_ms",
    "failed": "failed",
}
COUNTERS = {
    "tokens_read": "vllm:prompt_tokens_total",
    "tokens_written": "vllm:generation_tokens_total",
    "tokens_cached": "vllm:prefix_cache_hits_total",
}
Figures = dict[str, float]


@dataclass(frozen=True)
class Load:
    """Requests of some streams, as fast as they are answered, or by the clock at `rate` a second."""

    name: str
    streams: int
    requests: int
    rate: float = 0.0


LOADS = (
    Load("1", 1, 8),
    Load("16", 16, 64),
    Load("64", 64, 256),
    Load("64, 20 requests a second", 64, 200, 20.0),
    Load("256", 256, 512),
)
WARM = Load("warm", 64, 64)
BESIDE_ENCODERS = (Load("1", 1, 4), Load("16", 16, 48), Load("64", 64, 128), Load("256", 256, 256))


@dataclass
class Servers:
    """Servers of one LLM by their names, each with its port, and the means to ask them.

    `run` is a run of the benchmark with these arguments, `page` the engine's metrics, `prompt` makes a new prompt.
    """

    ports: dict[str, int]
    model: str
    weights: Path
    work: Path
    run: Callable[[list[str]], Mapping[str, Any]]
    page: Callable[[], str]
    prompt: Callable[[], str]

    def rows(
        self, results: MutableMapping[str, Any], key: str, loads: Sequence[Load], rounds: int
    ) -> dict[str, dict[str, Any]]:
        """Returns each server's medians under each load, and adds them to `results` after every run. LiteLLM has one
        round."""
        rows: dict[str, dict[str, Any]] = {load.name: {} for load in loads}
        for name in self.ports:  # the first batch compiles kernels; its figures are not kept
            self.figures(name, WARM, self.prompts(WARM))
        for number in range(rounds):
            # The order alternates, so that a warming card favours no server.
            names = [*self.ports][number % 2 :] + [*self.ports][: number % 2]
            for load in loads:
                file = self.prompts(load)
                for name in names:
                    if name == PEER and (number or load.rate):
                        continue
                    runs = [*rows[load.name].get(name, {"runs": []})["runs"], self.figures(name, load, file)]
                    rows[load.name][name] = medians(runs) | {"runs": runs}
                    results[key] = rows
        return rows

    def prompts(self, load: Load) -> Path:
        """Returns the file of new prompts, one a line."""
        file = self.work / "prompts.jsonl"
        file.write_text("".join(json.dumps({"prompt": self.prompt()}) + "\n" for _ in range(load.requests)))
        return file

    def figures(self, name: str, load: Load, prompts: Path) -> Figures:
        """Returns the figures of one server under a load, and the engine's counts of tokens meanwhile."""
        before = counted(self.page())
        # The engine alone gets another salt than the gateway's tenant, so that neither profits from the other's cached
        # prefixes.
        listed = words(self.ports[name], self.model, self.weights, load, prompts, "alone" if name == ENGINE else "")
        result = self.run(listed)
        after = counted(self.page())
        figures = corrected({figure: float(result[key]) for figure, key in FIGURES.items()})
        return figures | {counter: after[counter] - before[counter] for counter in COUNTERS}


def judged(results: MutableMapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Passes if no request failed; `asked_alike` if each server had the engine read and write as many tokens."""
    pairs = [
        {(row["runs"][number]["tokens_read"], row["runs"][number]["tokens_written"]) for row in servers.values()}
        for servers in rows.values()
        for number in range(min(len(row["runs"]) for row in servers.values()))
    ]
    results["asked_alike"] = all(len(counts) == 1 for counts in pairs)
    failed = sum(row["failed"] for servers in rows.values() for row in servers.values())
    results["passed"] = not failed and results["asked_alike"]


def corrected(figures: Figures) -> Figures:
    """Returns figures by the tokens of each answer, not by those that the server reported of it.

    LiteLLM counts a stream's tokens with another model's tokenizer: 426 for each 128 (1.106.2, 2026-11-28).
    """
    answers = figures["requests_per_second"]
    reported = figures["tokens_per_second"] / answers if answers else ANSWER_TOKENS
    token_ms = figures["token_ms_p50"] * (reported - 1) / (ANSWER_TOKENS - 1)
    return figures | {"tokens_per_second": answers * ANSWER_TOKENS, "token_ms_p50": token_ms}


def counted(page: str) -> Figures:
    """Returns the engine's counters on its page of metrics."""
    return {
        name: sum(map(float, re.findall(rf"^{counter}(?:\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE)))
        for name, counter in COUNTERS.items()
    }


def medians(runs: Sequence[Figures]) -> dict[str, Any]:
    """Returns the median of each figure over the runs."""
    return {name: round(statistics.median(figures[name] for figures in runs), 3) for name in runs[0]}


def words(port: int, model: str, weights: Path, load: Load, prompts: Path, salt: str = "") -> list[str]:
    """Returns the command line of `vllm bench serve`: a load of the prompts in a file."""
    values = {
        "--backend": "openai-chat",
        "--endpoint": "/v1/chat/completions",
        "--base-url": f"http://127.0.0.1:{port}",
        "--model": model,
        "--tokenizer": str(weights),
        "--dataset-name": "custom",
        "--dataset-path": str(prompts),
        "--custom-output-len": ANSWER_TOKENS,
        "--num-prompts": load.requests,
        "--max-concurrency": load.streams,
        "--seed": 1,
        **({"--request-rate": load.rate} if load.rate else {}),
        **SAMPLING,
        **({"--extra-body": json.dumps({"cache_salt": salt})} if salt else {}),
    }
    flags = ["--ignore-eos", "--disable-tqdm", "--disable-shuffle", "--skip-chat-template"]
    return [*flags, *(str(word) for pair in values.items() for word in pair)]
