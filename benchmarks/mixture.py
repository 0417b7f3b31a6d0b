"""Requests of the soak's clients, and the check of their answers: a pool of texts with known answers.

The client's own seeded generator draws every request: a few texts or passages of the pool in any order, with any
options; and sometimes one of the mistakes below, which must be refused with its own message while other requests of its
batch are answered. A swapped answer is far outside the bounds, because texts differ by more.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calls import Answer, Refused
from benchmarks.sized_texts import Writer

TASKS = ("search_query", "search_document", "classification", "clustering")
COSINE_BOUND = {"fp32": 1e-5, "fp16": 1e-4, "bf16": 3e-4}
LOGIT_BOUND = {"fp32": 1e-3, "fp16": 5e-3, "bf16": 3e-2}
REFUSALS = ("INVALID_ARGUMENT", "400")
MAX_ITEMS = 1024
DOUBTS = 500
"""Most answers beyond the bound that one client keeps for later; further ones count as faults."""


@dataclass(frozen=True)
class Drawn:
    """A request: the model, the content, and the function that returns the answer's fault ("" when right)."""

    model: str
    request: dict[str, Any]
    is_bad: bool
    fault: Callable[[Answer | Refused], str]


def pool(folder: Path, checkpoints: dict[str, Path], texts: int, queries: int, passages: int) -> dict[str, Any]:
    """Returns texts of 1 to 600 tokens, each with one task, and queries with their passages; mostly short."""
    rng = random.Random(11)
    writer = Writer(checkpoints["embedder"] / "tokenizer.json", 12)

    def length(most: int) -> int:
        return min(most, max(1, round(rng.lognormvariate(3.6, 0.8))))

    return {
        "checkpoints": {kind: str(path) for kind, path in checkpoints.items()},
        "texts": [(TASKS[n % 4], writer.text(600 if n % 97 == 0 else length(500))) for n in range(texts)],
        "rankings": [
            {"query": writer.text(rng.randint(1, 20)), "passages": [writer.text(length(480)) for _ in range(passages)]}
            for _ in range(queries)
        ],
    }


Doubt = list[tuple[int, np.ndarray]]
"""Vectors of one answer beyond the bound, each with the number of its text in the pool."""


def fault_of(doubt: Doubt, ties: dict[int, np.ndarray], dtype: str) -> str:
    """Returns the fault of a doubtful answer; "" if each vector equals a float32 vector with other routing ties.

    `ties`: such vectors of each text, [draws, width].
    """
    for text, vector in doubt:
        nearest = min(_distances(vector[None], vectors[None, : len(vector)])[0] for vectors in ties[text])
        if not nearest <= COSINE_BOUND[dtype]:
            return _far(nearest, len(vector))
    return ""


def _far(distance: float, values: int) -> str:
    return f"1 - cos {distance:.2e} over {values} values"


class Mixture:
    """Draws requests and judges answers; `dtype` is the server's, and sets the bounds."""

    def __init__(self, pool_json: Path, answers: Path, dtype: str, bad_percent: float, seed: int) -> None:
        self._pool = json.loads(pool_json.read_text("utf-8"))
        self._known = dict(np.load(answers))
        self._cosine, self._logit = COSINE_BOUND[dtype], LOGIT_BOUND[dtype]
        # A third of the width (256 of 768), for which the model was trained. For a few values the same rounding changes
        # the angle several times as much, so no bound for whole vectors would apply.
        self._cut = self._known["vectors"].shape[1] // 3
        self._bad, self._rng = bad_percent / 100, random.Random(seed)
        self.worst = {"cosine": 0.0, "cosine of cut vectors": 0.0, "logit": 0.0}
        self._has_ties = dtype != "fp32"
        self.doubtful: list[Doubt] = []
        """Answers beyond the bound that may be right if a routing tie went the other way; `fault_of` decides."""

    def draw(self) -> Drawn:
        """Returns the next request of this client."""
        if self._rng.random() < self._bad:
            return self._mistake()
        return self._embedding() if self._rng.random() < 0.6 else self._ranking()

    def _embedding(self) -> Drawn:
        task = self._rng.randrange(4)
        mine = self._rng.choices(range(task, len(self._pool["texts"]), 4), k=self._rng.choice((1, 1, 2, 3, 5, 8)))
        options: dict[str, Any] = {"task": TASKS[task]}
        options |= self._rng.choice(({}, {}, {"dimensions": self._cut}, {"normalize": False}))
        request = {"texts": [self._pool["texts"][n][1] for n in mine], "options": options}
        return Drawn("embedder", request, False, lambda answer: self._judge_vectors(answer, mine, options))

    def _ranking(self) -> Drawn:
        row = self._rng.randrange(len(self._pool["rankings"]))
        ranking = self._pool["rankings"][row]
        mine = self._rng.choices(range(len(ranking["passages"])), k=self._rng.choice((1, 2, 4, 8)))
        options = self._rng.choice(({}, {}, {"raw_scores": False}))
        passages = [ranking["passages"][n] for n in mine]
        request = {"query": ranking["query"], "passages": passages, "options": options}
        return Drawn("reranker", request, False, lambda answer: self._judge_scores(answer, row, mine, options))

    def _judge_vectors(self, answer: Answer | Refused, mine: list[int], options: dict[str, Any]) -> str:
        if isinstance(answer, Refused):
            return f"refused: {answer}"
        whole = self._known["vectors"][mine]
        wanted = whole[:, : options.get("dimensions", whole.shape[1])]
        got = answer["embeddings"][0]
        if got.shape != wanted.shape or answer["token_counts"][0].tolist() != self._known["text_tokens"][mine].tolist():
            return f"shape {got.shape}, tokens {answer['token_counts'].tolist()}"
        lengths, wanted_lengths = np.linalg.norm(got, axis=1), np.linalg.norm(wanted, axis=1)
        distances = _distances(got, wanted)
        right_lengths = wanted_lengths if options.get("normalize") is False else np.ones(len(mine))
        if not np.abs(lengths / right_lengths - 1).max() < 0.01:
            return f"lengths {lengths / right_lengths} times the right ones"
        beyond = ~(distances <= self._cosine)
        key = "cosine of cut vectors" if "dimensions" in options else "cosine"
        self.worst[key] = float(max([self.worst[key], *distances[~beyond]]))
        if beyond.any() and self._has_ties and np.isfinite(got).all() and len(self.doubtful) < DOUBTS:
            self.doubtful.append([(mine[n], got[n]) for n in np.flatnonzero(beyond)])
        elif beyond.any():
            return _far(distances.max(), got.shape[1])
        return ""

    def _judge_scores(self, answer: Answer | Refused, row: int, mine: list[int], options: dict[str, Any]) -> str:
        if isinstance(answer, Refused):
            return f"refused: {answer}"
        wanted, got = self._known["logits"][row][mine], answer["scores"][0]
        if answer["token_counts"][0].tolist() != self._known["pair_tokens"][row][mine].tolist():
            return f"tokens {answer['token_counts'].tolist()}"
        if options.get("raw_scores") is False:
            wanted = 1 / (1 + np.exp(-wanted))
        far = float(np.abs(got - wanted).max()) if got.shape == wanted.shape else float("inf")
        self.worst["logit"] = max(self.worst["logit"], far)
        return "" if far <= self._logit else f"logits off by {far:.2e}"

    def _mistake(self) -> Drawn:
        texts = ["a fine text", "another"]
        model, request, words = self._rng.choice((
            ("embedder", {"texts": ["fine", b"\xff\xfe broken"], "options": {}}, "not UTF-8"),
            ("embedder", {"texts": texts, "options": {"dimension": 8}}, "unknown option"),
            ("embedder", {"texts": texts, "options": {"task": "poetry"}}, "option `task`"),
            ("embedder", {"texts": texts, "options": {"dimensions": 100_000}}, "option `dimensions`"),
            ("embedder", {"texts": ["bu " * 700], "options": {"truncate": False}}, "tokens of at most"),
            ("embedder", {"texts": ["x"] * (MAX_ITEMS + 1), "options": {}}, "items in one request"),
            ("reranker", {"query": " ", "passages": texts, "options": {}}, "is empty"),
            ("reranker", {"query": "fine", "passages": [b"\xc3(", "fine"], "options": {}}, "not UTF-8"),
            ("reranker", {"query": "fine", "passages": texts, "options": {"raw_scores": "yes"}}, "true or false"),
        ))  # fmt: skip
        return Drawn(model, request, True, lambda answer: _judge_refusal(answer, words))


def _distances(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns the cosine distance (1 - cosine) of each row."""
    return 1 - (got * wanted).sum(1) / (np.linalg.norm(got, axis=1) * np.linalg.norm(wanted, axis=1))


def _judge_refusal(answer: Answer | Refused, words: str) -> str:
    if not isinstance(answer, Refused):
        return "a mistake was answered"
    ok = answer.code in REFUSALS and words in answer.message
    return "" if ok else f"refused with other words than `{words}`: {answer}"
