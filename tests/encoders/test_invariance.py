"""A text's result is its own: whatever shares its batch, in whatever order, however the batch is cut."""

import random

import numpy as np
import pytest

from encoders.batching import Job, fitting, run
from encoders.embedding import Embedder
from encoders.reranking import Reranker


def embed(embedder: Embedder, *requests: list[str], budget: int = 0) -> list[np.ndarray]:
    jobs = [embedder.read([[texts]], (1, len(texts)), None) for texts in requests]
    whole, embedder.budget = embedder.budget, budget or embedder.budget
    embedder.work(jobs)
    embedder.budget = whole
    return [embedder.answer(job)["embeddings"][0] for job in jobs]


def scores(reranker: Reranker, passages: list[str]) -> np.ndarray:
    job = reranker.read([[["river bank"]], [passages]], (1, len(passages)), None)
    reranker.work([job])
    return reranker.answer(job)["scores"][0]


def test_a_text_alone_and_among_others_gets_the_same_vector(embedder: Embedder, corpus: list[str]) -> None:
    together = embed(embedder, corpus)[0]
    alone = np.stack([embed(embedder, [text])[0][0] for text in corpus])
    np.testing.assert_allclose(together, alone, atol=2e-6)


def test_shuffled_texts_get_shuffled_vectors(embedder: Embedder, corpus: list[str]) -> None:
    order = random.Random(1).sample(range(len(corpus)), len(corpus))
    shuffled = embed(embedder, [corpus[i] for i in order])[0]
    np.testing.assert_allclose(shuffled, embed(embedder, corpus)[0][order], atol=2e-6)


@pytest.mark.parametrize("budget", [1, 64, 200, 100_000])
def test_the_cut_into_micro_batches_does_not_show(embedder: Embedder, corpus: list[str], budget: int) -> None:
    np.testing.assert_allclose(embed(embedder, corpus, budget=budget)[0], embed(embedder, corpus)[0], atol=2e-6)


def test_requests_run_together_get_what_each_gets_alone(embedder: Embedder, corpus: list[str]) -> None:
    together = embed(embedder, corpus[:5], corpus[5:6], corpus[6:])
    alone = [embed(embedder, part)[0] for part in (corpus[:5], corpus[5:6], corpus[6:])]
    for got, wanted in zip(together, alone, strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-6)


def test_shuffled_passages_keep_their_scores(reranker: Reranker, corpus: list[str]) -> None:
    order = random.Random(2).sample(range(len(corpus)), len(corpus))
    shuffled = scores(reranker, [corpus[i] for i in order])
    np.testing.assert_allclose(shuffled, scores(reranker, corpus)[order], atol=1e-5)


def test_a_pass_stays_within_the_budget_of_padded_tokens() -> None:
    seen: list[int] = []

    def forward(sequences: list[list[int]]) -> np.ndarray:
        seen.append(len(sequences) * max(map(len, sequences)))
        return np.zeros(len(sequences))

    job = Job()
    job.expect([[0] * n for n in (5, 30, 7, 12, 12, 3, 9, 29)])
    run([job], forward, 60)
    assert seen == [60, 60, 3]


def test_a_sequence_above_the_budget_runs_alone() -> None:
    assert fitting([90, 10, 10], 64) == 1
