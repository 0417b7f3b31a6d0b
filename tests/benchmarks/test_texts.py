"""The texts of the benchmarks: their stated length, equal on each run, from a vocabulary of the published size."""

import json
from pathlib import Path

from benchmarks import cases, sized_texts

NAMES = list(cases.NAMED)


def test_the_vocabulary_has_the_published_number_of_entries() -> None:
    assert sized_texts.tokenizer().get_vocab_size() == 250_002


def test_texts_have_exactly_the_tokens_asked_for(small: dict[str, Path]) -> None:
    tokenizer = small["embedder"] / "tokenizer.json"
    writer = sized_texts.Writer(tokenizer, seed=3)
    texts = [writer.text(tokens) for tokens in (1, 2, 30, 500)]
    assert sized_texts.token_counts(tokenizer, texts) == [1, 2, 30, 500]


def test_some_words_fall_into_several_tokens(small: dict[str, Path]) -> None:
    text = sized_texts.Writer(small["embedder"] / "tokenizer.json", seed=3).text(1000)
    assert 600 < len(text.split()) < 900


def test_the_same_case_is_the_same_bytes_every_time(small: dict[str, Path], tmp_path: Path) -> None:
    case = cases.chosen(["rerank-mixed"], small=True)[0]
    (tmp_path / "again").mkdir()
    files = [cases.write(case, small["reranker"] / "tokenizer.json", at) for at in (tmp_path, tmp_path / "again")]
    assert files[0].path.read_bytes() == files[1].path.read_bytes()


def test_log_normal_lengths_have_the_mean_they_are_named_for(small: dict[str, Path], tmp_path: Path) -> None:
    case = cases.chosen(["rerank-mixed"], small=False)[0]
    workload = cases.write(case, small["reranker"] / "tokenizer.json", tmp_path)
    assert abs(workload.tokens_per_document - 123) < 4


def test_another_seed_draws_other_lengths_and_other_texts(small: dict[str, Path], tmp_path: Path) -> None:
    (case,), tokenizer = cases.chosen(["rerank-uniform"], small=True), small["reranker"] / "tokenizer.json"
    texts = [cases.write(case, tokenizer, tmp_path, seed).path.read_text() for seed in ("", "unseen", "unseen")]
    assert texts[0] != texts[1] == texts[2]


def test_lengths_of_lumps_lie_in_one_of_them(small: dict[str, Path], tmp_path: Path) -> None:
    (case,), tokenizer = cases.chosen(["rerank-lumps"], small=True), small["reranker"] / "tokenizer.json"
    (request, *_) = json.loads(cases.write(case, tokenizer, tmp_path).path.read_text())
    lengths = [tokens + 4 + cases.QUERY_TOKENS for tokens in sized_texts.token_counts(tokenizer, request["passages"])]
    assert all(any(low <= length <= high for low, high in case.lumps) for length in lengths)


def test_every_request_has_the_items_of_its_case(small: dict[str, Path], tmp_path: Path) -> None:
    for case in cases.chosen(NAMES, small=True):
        requests = json.loads(cases.write(case, small[case.kind] / "tokenizer.json", tmp_path).path.read_text())
        assert {len(request.get("passages") or request["texts"]) for request in requests} == {case.items}
