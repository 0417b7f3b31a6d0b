"""Requests and answers of clients, through both models' `execute` with a stand-in for Triton's module."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders.embedding import Embedder
from encoders.packing import Packed
from encoders.reranking import Reranker
from encoders.serving import MOST_TEXT_BYTES, Service
from tests.encoders import checkpoints
from tests.encoders import fake_triton as triton
from tests.encoders.fake_triton import InferenceResponse, Request, TritonError, strings

LONG = "river " * 900


@pytest.fixture(scope="module")
def embed(nomic: Path) -> Iterator[Service]:
    """Yields the embedder in Triton's form."""
    with closing(service(nomic, Embedder, max_tokens="128", max_items="64")) as embed:
        yield embed


@pytest.fixture(scope="module")
def rank(xlmr: Path) -> Iterator[Service]:
    """Yields the reranker in Triton's form."""
    with closing(service(xlmr, Reranker, max_tokens="128", max_items="64")) as rank:
        yield rank


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    """Yields a factory of services for one test, closed after it."""
    with ExitStack() as closings:
        yield lambda *what, **parameters: closings.enter_context(closing(service(*what, **parameters)))


def service(directory: Path, kind: Any, **parameters: str) -> Service:
    parameters |= {"model_path": str(directory), "device": "cpu", "dtype": "fp32"}
    return Service(triton, triton.arguments("some_model", parameters), kind)


def texts(*rows: list[str | bytes], **options: Any) -> Request:
    return Request({"texts": strings(list(rows))}, options)


def pairs(query: list[str | bytes], *passages: list[str | bytes], **options: Any) -> Request:
    return Request({"query": strings([[q] for q in query]), "passages": strings(list(passages))}, options)


def refusal(response: InferenceResponse) -> str:
    assert response.error is not None and response.error.code == TritonError.INVALID_ARG
    assert response.output_tensors == []
    return str(response.error)


@pytest.mark.parametrize("shape", [(1, 1), (1, 33), (3, 1), (4, 5), (1, 0), (2, 0)])
def test_embeddings_have_a_vector_for_every_text_of_every_row(embed: Service, shape: tuple[int, int]) -> None:
    rows = [[f"cat {i} {j}" for j in range(shape[1])] for i in range(shape[0])]
    (got,) = embed.execute([texts(*rows)])
    assert got["embeddings"].shape == (*shape, 64) and got["embeddings"].dtype == np.float32
    assert got["token_counts"].shape == shape and got["token_counts"].dtype == np.int32


@pytest.mark.parametrize("shape", [(1, 1), (1, 33), (4, 5), (1, 0)])
def test_scores_have_a_value_for_every_passage_of_every_row(rank: Service, shape: tuple[int, int]) -> None:
    rows = [[f"cat {i} {j}" for j in range(shape[1])] for i in range(shape[0])]
    (got,) = rank.execute([pairs([f"query {i}" for i in range(shape[0])], *rows)])
    assert got["scores"].shape == shape and got["scores"].dtype == np.float32
    assert got["token_counts"].shape == shape and got["token_counts"].dtype == np.int32


def test_later_rows_are_answered_like_first_rows(embed: Service) -> None:
    (both,) = embed.execute([texts(["the cat", "a dog"], ["paris", "london city"])])
    (second,) = embed.execute([texts(["paris", "london city"])])
    np.testing.assert_allclose(both["embeddings"][1], second["embeddings"][0], atol=1e-6)


def test_each_row_is_scored_against_its_own_query(rank: Service) -> None:
    (both,) = rank.execute([pairs(["cat", "river"], ["sat", "bank"], ["sat", "bank"])])
    (second,) = rank.execute([pairs(["river"], ["sat", "bank"])])
    np.testing.assert_allclose(both["scores"][1], second["scores"][0], atol=1e-5)
    assert np.abs(both["scores"][0] - both["scores"][1]).min() > 1e-3


def test_one_long_text_among_many_short_ones_is_cut_to_the_limit(embed: Service) -> None:
    (got,) = embed.execute([texts([LONG, *["the cat"] * 20])])
    counts = got["token_counts"][0]
    assert counts[0] == 128 and len(set(counts[1:].tolist())) == 1
    np.testing.assert_allclose(got["embeddings"][0, 1:], got["embeddings"][0, 1:2].repeat(20, 0), atol=1e-6)


def test_truncation_may_be_refused_and_names_the_text_and_its_tokens(embed: Service) -> None:
    (got,) = embed.execute([texts(["cat", "dog"], ["sea", LONG], truncate=False)])
    assert refusal(got) == "texts[1][1] has 913 tokens of at most 128; shorten it or allow `truncate`"


def test_a_long_passage_may_be_refused_and_is_named(rank: Service) -> None:
    (got,) = rank.execute([pairs(["cat"], ["dog", LONG], truncate=False)])
    assert refusal(got) == (
        "passages[0][1] has 905 tokens with its query, of at most 128; shorten it or allow `truncate`"
    )


def test_a_long_query_may_be_refused_and_is_named(rank: Service) -> None:
    (got,) = rank.execute([pairs([LONG], ["dog"], truncate=False)])
    assert refusal(got) == "query[0] has 900 tokens of at most 96; shorten it or allow `truncate`"


def test_a_long_query_leaves_room_for_the_passage(rank: Service) -> None:
    (got,) = rank.execute([pairs([LONG], ["the cat sat", "money"])])
    assert got["token_counts"].tolist() == [[103, 101]]
    assert abs(got["scores"][0, 0] - got["scores"][0, 1]) > 1e-4


def test_emoji_and_cjk_are_texts_like_any(embed: Service) -> None:
    (got,) = embed.execute([texts(["😀😀", "猫と漢字", "", "\x00"])])
    assert got.error is None and np.isfinite(got["embeddings"]).all()


def test_bytes_that_are_no_utf_8_are_named_and_not_shown(embed: Service) -> None:
    (got,) = embed.execute([texts(["fine", b"caf\xe9 secret"])])
    assert refusal(got) == "texts[0][1] is not UTF-8 at byte 3"


def test_an_overlong_text_is_refused_without_its_batch(embed: Service) -> None:
    most, long = MOST_TEXT_BYTES, b"a" * (MOST_TEXT_BYTES + 1)
    bad, good = embed.execute([texts(["cat", long]), texts([long[:-1]])])
    assert refusal(bad) == f"texts[0][1] has {most + 1} bytes of at most {most}; shorten it"
    assert good["token_counts"].tolist() == [[128]]


def test_an_empty_query_is_refused(rank: Service) -> None:
    assert refusal(rank.execute([pairs(["  "], ["dog"])])[0]) == "query[0] is empty"


def test_too_many_items_are_refused(embed: Service) -> None:
    assert refusal(embed.execute([texts(["cat"] * 65)])[0]) == "65 items in one request; at most 64"


def test_an_unknown_option_is_refused_by_name(embed: Service, rank: Service) -> None:
    assert "unknown option `prompt`" in refusal(embed.execute([texts(["cat"], prompt="x")])[0])
    assert "unknown option `top_n`" in refusal(rank.execute([pairs(["cat"], ["dog"], top_n=3)])[0])


def test_a_bad_request_leaves_its_batch_mates_unharmed(embed: Service) -> None:
    good = [texts(["the cat"]), texts(["paris", "money", "sea"])]
    bad = [texts([b"\xff"]), texts(["cat"], dimensions=65), Request({}), texts([LONG], truncate=False)]
    got = embed.execute([bad[0], good[0], bad[1], bad[2], good[1], bad[3]])
    assert [response.error is None for response in got] == [False, True, False, False, True, False]
    alone = [embed.execute([request])[0] for request in good]
    np.testing.assert_allclose(got[1]["embeddings"], alone[0]["embeddings"], atol=1e-6)
    np.testing.assert_allclose(got[4]["embeddings"], alone[1]["embeddings"], atol=1e-6)


def test_requests_with_different_numbers_of_passages_run_together(rank: Service) -> None:
    requests = [pairs(["cat"], ["dog"] * n) for n in (1, 7, 0, 3)]
    assert [got["scores"].shape for got in rank.execute(requests)] == [(1, 1), (1, 7), (1, 0), (1, 3)]


def test_a_request_cancelled_before_its_pass_is_answered_as_cancelled(embed: Service) -> None:
    cancelled = texts(["cat"])
    cancelled.is_cancelled = lambda: True
    got = embed.execute([cancelled, texts(["cat"])])
    assert got[0].error is not None and got[0].error.code == TritonError.CANCELLED
    assert got[1].error is None


def test_a_request_cancelled_on_its_way_costs_no_further_pass(serve: Callable[..., Service], nomic: Path) -> None:
    slow = serve(nomic, Embedder, max_batch_tokens="8")
    answers: Iterator[bool] = iter([False, False, True])
    request = texts(["cat"] * 9)
    request.is_cancelled = lambda: next(answers)
    (got,) = slow.execute([request])
    assert got.error is not None and got.error.code == TritonError.CANCELLED
    assert next(answers, "asked three times") == "asked three times"


def test_a_request_of_an_older_stub_is_served_without_cancellation(embed: Service) -> None:
    class OldRequest:
        def __init__(self) -> None:
            self.tensors = {"texts": strings([["cat"]])}

        def parameters(self) -> str:
            return ""

    assert embed.execute([OldRequest()])[0].error is None


def test_prefixes_follow_the_task_and_default_to_search_document(embed: Service) -> None:
    def vector(text: str, **options: Any) -> np.ndarray:
        return embed.execute([texts([text], **options)])[0]["embeddings"][0, 0]

    np.testing.assert_array_equal(vector("cat"), vector("cat", task="search_document"))
    assert np.abs(vector("cat") - vector("cat", task="search_query")).max() > 1e-3


def test_the_prefix_is_part_of_the_tokens(embed: Service) -> None:
    tokenizer = checkpoints.unigram()
    tokenizer.no_padding()
    (got,) = embed.execute([texts(["the cat"], task="clustering")])
    assert got["token_counts"].tolist() == [[len(tokenizer.encode("clustering: the cat").ids)]]


def test_a_task_is_refused_where_the_family_has_no_prefixes(serve: Callable[..., Service], bert: Path) -> None:
    (got,) = serve(bert, Embedder).execute([texts(["cat"], task="search_query")])
    assert refusal(got) == "option `task`: this model was trained without prefixes"


def test_vectors_have_length_1_unless_asked_otherwise(embed: Service) -> None:
    unit, raw = embed.execute([texts(["the cat"]), texts(["the cat"], normalize=False)])
    assert np.linalg.norm(unit["embeddings"]) == pytest.approx(1.0, abs=1e-6)
    assert np.linalg.norm(raw["embeddings"]) > 1.5


def test_shortened_vectors_are_the_leading_values_renormalised(embed: Service) -> None:
    cut, whole = embed.execute([texts(["the cat"], dimensions=16), texts(["the cat"], normalize=False)])
    first = whole["embeddings"][..., :16]
    np.testing.assert_allclose(cut["embeddings"], first / np.linalg.norm(first), atol=1e-6)


def test_more_dimensions_than_there_are_is_refused(embed: Service) -> None:
    (got,) = embed.execute([texts(["cat"], dimensions=65)])
    assert refusal(got) == "option `dimensions` is 65; this model has 1 to 64"


def test_scores_are_logits_or_on_request_their_logistic_function(rank: Service) -> None:
    raw, squashed = rank.execute([pairs(["cat"], ["dog", "sea"]), pairs(["cat"], ["dog", "sea"], raw_scores=False)])
    np.testing.assert_allclose(squashed["scores"], 1 / (1 + np.exp(-raw["scores"])), atol=1e-6)


def test_out_of_memory_halves_the_pass_until_it_fits(serve: Callable[..., Service], nomic: Path) -> None:
    small = serve(nomic, Embedder)
    tokens = squeeze(small, most=300)
    (got,) = small.execute([texts(["the cat"] * 33)])
    assert got.error is None and np.isfinite(got["embeddings"]).all()
    assert tokens == [495, 240, 240, 15]


def test_a_request_too_large_for_memory_is_refused_and_others_are_served(
    serve: Callable[..., Service], nomic: Path
) -> None:
    small = serve(nomic, Embedder)
    squeeze(small, most=400)
    big, little = small.execute([texts([LONG]), texts(["cat"] * 3)])
    assert big.error is not None and big.error.code == TritonError.UNAVAILABLE
    assert little.error is None


def squeeze(victim: Service, most: int) -> list[int]:
    """Makes later passes over more than `most` tokens run out of memory; returns a list of each attempt's tokens."""
    network, tokens = victim._model.runner._network, []

    def forward(batch: Packed) -> torch.Tensor:
        tokens.append(len(batch.ids))
        if len(batch.ids) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return network(batch)

    victim._model.runner._network = forward
    return tokens


def test_an_unforeseen_error_is_internal_and_logged_without_text(serve: Callable[..., Service], nomic: Path) -> None:
    broken = serve(nomic, Embedder)

    def forward(batch: Packed) -> torch.Tensor:
        raise ValueError("secret words of a prompt")

    broken._model.runner._network = forward
    triton.Logger.lines.clear()
    (got,) = broken.execute([texts(["secret words of a prompt"])])
    assert str(got.error) == "internal error, ValueError; see the server's log"
    assert len(triton.Logger.lines) == 1 and "secret" not in triton.Logger.lines[0]


def test_a_result_that_is_no_number_is_named_in_the_log(serve: Callable[..., Service], nomic: Path) -> None:
    runner = (broken := serve(nomic, Embedder))._model.runner
    runner._network = lambda batch, network=runner._network: network(batch) * float("nan")
    assert broken.execute([texts(["some text"])])[0].error and triton.Logger.lines[-1].endswith("is not finite")


def test_the_model_stays_ready_while_its_device_answers(serve: Callable[..., Service], nomic: Path) -> None:
    assert serve(nomic, Embedder).is_ready() is True


def test_the_model_is_not_ready_once_its_device_is_lost(
    serve: Callable[..., Service], nomic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = serve(nomic, Embedder)
    monkeypatch.setattr(lost._model.runner, "_answers", lambda: False)
    lost._model.runner._network = None
    lost.execute([texts(["cat"])])
    assert lost.is_ready() is False
