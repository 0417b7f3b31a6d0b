"""A text's result depends on the text alone, not on the batch around it or on how the batch is cut."""

import random

import numpy as np
import pytest
import torch

from encoders.batching import Batcher, Job, cut, run
from encoders.embedding import Embedder
from encoders.graphs import rooms, smallest
from encoders.packing import Form, form, pack
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


def test_batched_requests_equal_single_requests(embedder: Embedder, corpus: list[str]) -> None:
    together = embed(embedder, corpus[:5], corpus[5:6], corpus[6:])
    alone = [embed(embedder, part)[0] for part in (corpus[:5], corpus[5:6], corpus[6:])]
    for got, wanted in zip(together, alone, strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-6)


def test_shuffled_passages_keep_their_scores(reranker: Reranker, corpus: list[str]) -> None:
    order = random.Random(2).sample(range(len(corpus)), len(corpus))
    shuffled = scores(reranker, [corpus[i] for i in order])
    np.testing.assert_allclose(shuffled, scores(reranker, corpus)[order], atol=1e-5)


class Recorded:
    """Passes that only record the tokens they were given."""

    def __init__(self, room: int = 10**9) -> None:
        self.tokens: list[int] = []
        self.beside: list[bool] = []
        self.room = room

    def __call__(self, sequences: list[np.ndarray], beside: bool) -> "Done":
        if sum(map(len, sequences)) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.tokens.append(sum(map(len, sequences)))
        self.beside.append(beside)
        self.last = np.array([len(s) for s in sequences], dtype=np.float32)
        return Done(self.last)


class Done:
    """A pass that is over."""

    def __init__(self, results: np.ndarray) -> None:
        self.results = results

    def wait(self) -> np.ndarray:
        return self.results


def _ids(*ids: int) -> np.ndarray:
    return np.array(ids, np.int32)


def lengths_job(*lengths: int) -> Job:
    job = Job()
    job.expect([np.zeros(n, np.int32) for n in lengths])
    return job


def test_a_pass_stays_within_the_budget_of_real_tokens() -> None:
    seen, job = Recorded(), lengths_job(5, 30, 7, 12, 12, 3, 9, 29)
    run([job], seen, 60)
    assert seen.tokens == [59, 48]
    assert [int(result) for result in job.results] == [5, 30, 7, 12, 12, 3, 9, 29]


def test_a_sequence_above_the_budget_runs_alone() -> None:
    assert cut([90, 10, 10], 64) == 1


def test_sequences_of_many_requests_share_a_pass() -> None:
    seen = Recorded()
    run([lengths_job(4), lengths_job(3, 2), lengths_job(1)], seen, 100)
    assert seen.tokens == [10]


def test_a_late_request_waits_for_no_more_than_the_window_before_it() -> None:
    seen, late = Recorded(), lengths_job(1)
    run([lengths_job(*[10] * 20), lengths_job(*[9] * 20), late, lengths_job(*[10] * 50)], seen, 100)
    assert seen.tokens[:4] == [100, 100, 99, 92]


@pytest.mark.parametrize(("streams", "most"), [(1, 2), (2, 4), (3, 6)])
def test_each_stream_with_full_passes_has_one_running(streams: int, most: int) -> None:
    seen = Recorded()
    batcher, at_once = Batcher(seen, 100, streams), []
    batcher.add(lengths_job(*[10] * 100))
    while batcher.busy:
        batcher.step()
        at_once.append(len(batcher._running))
    assert max(at_once) == most and seen.tokens == [100] * 10
    assert seen.beside == [True] * 9 + [False]


def test_less_than_a_full_pass_waits_its_turn_in_one_stream() -> None:
    seen, at_once = Recorded(), []
    batcher = Batcher(seen, 100, streams=2)
    for _ in range(3):
        batcher.add(lengths_job(40, 50))
        batcher.step()
        at_once.append(len(batcher._running))
    while batcher.busy:
        batcher.step()
    assert at_once == [1, 2, 1] and seen.tokens == [90] * 3
    assert not any(seen.beside)


def test_memory_that_runs_out_halves_the_pass_for_this_window_only() -> None:
    seen, job = Recorded(room=35), lengths_job(*[10] * 8)
    run([job], seen, 80)
    assert seen.tokens == [20, 20, 20, 20] and job.error is None


def test_passes_are_full_again_a_window_after_memory_ran_out() -> None:
    seen, short = Recorded(), [True]

    def launch(sequences: list[np.ndarray], beside: bool) -> Done:
        if short and short.pop():
            raise torch.OutOfMemoryError("CUDA out of memory")
        return seen(sequences, beside)

    batcher = Batcher(launch, 100)
    for _ in range(40):
        batcher.add(lengths_job(*[10] * 10))
        batcher.add(lengths_job(*[10] * 10))
        batcher.step()
    assert batcher.waiting > 100, "the window was never empty"
    assert seen.tokens[:4] == [50] * 4 and set(seen.tokens[4:]) == {100}


def test_a_question_to_triton_that_fails_is_no_cancellation_and_ends_nothing() -> None:
    seen, job = Recorded(), lengths_job(5, 6)
    job.is_cancelled = lambda: bool(1 / 0)
    run([job], seen, 100)
    assert job.error is None and seen.tokens == [11]


def test_tokens_that_wait_are_counted_through_cancellation_and_lack_of_memory() -> None:
    batcher, cancelled = Batcher(Recorded(room=35), 80), lengths_job(7)
    cancelled.is_cancelled = lambda: True
    batcher.add(lengths_job(*[10] * 8))
    batcher.add(cancelled)
    waiting = [batcher.waiting]
    while batcher.busy:
        batcher.step()
        waiting.append(batcher.waiting)
    assert waiting == [87, 80, 80, 60, 40, 40, 20, 20, 0, 0, 0]


def test_each_part_of_the_packed_row_is_where_the_networks_read_it() -> None:
    row = pack([_ids(5, 6, 7), _ids(8, 9)], Form(8, 4, 3), filler=1, counted_from=2)
    assert row[:8].tolist() == [5, 6, 7, 8, 9, 1, 1, 1]
    assert row[8:16].tolist() == [2, 3, 4, 2, 3, 2, 3, 4]
    assert row[16:21].tolist() == [0, 3, 5, 8, 8]
    assert row[21] == 3 and row[22:25].tolist() == [0, 1, 2] and row[26:29].tolist() == [0, 0, 0]


def test_a_literal_pad_token_inside_a_text_is_not_counted_as_a_position() -> None:
    texts = [_ids(0, 5, 2), _ids(0, 5, 1, 6, 2)]
    row = pack(texts, form(texts), filler=1, counted_from=2, uncounted=1)
    assert row[8:16].tolist() == [2, 3, 4, 2, 3, 1, 4, 5]


def test_the_smallest_room_that_can_be_filled_up_is_taken() -> None:
    offered = rooms(longest=512, budget=16384)
    assert smallest(offered, [np.zeros(20)]) == Form(32, 2, 32)
    assert smallest(offered, [np.zeros(20)] * 2) == Form(64, 4, 64)
    assert smallest(offered, [np.zeros(4)] * 9) == Form(256, 16, 256)
    assert smallest(offered, [np.zeros(513)]) is None
    assert smallest(offered, [np.zeros(500)] * 8) == Form(4096, 256, 512)
    assert smallest(offered, [np.zeros(500)] * 9) == Form(5120, 320, 512)
    assert smallest(offered, [np.zeros(500)] * 33) is None


def test_sequences_are_cut_into_runs_for_the_attention_kernel() -> None:
    texts = [np.zeros(130, np.int32), np.zeros(64, np.int32)]
    room = form(texts)
    runs = pack(texts, room, filler=1)[-(1 + 2 * room.tiles) :]
    assert runs[0] == 4
    assert runs[1:5].tolist() == [0, 0, 0, 1] and runs[1 + room.tiles :][:4].tolist() == [0, 1, 2, 0]
