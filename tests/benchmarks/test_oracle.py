"""The soak's right answers against the numpy reference of the encoders' tests, which shares no code with them."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file

from benchmarks import mixture, oracle, soak
from benchmarks.calls import Refused
from tests.encoders import reference


def test_logits_are_those_of_the_reference(small: dict[str, Path]) -> None:
    with torch.inference_mode():
        reranker = oracle.Reranker(small["reranker"], "cpu")
        got, tokens = reranker("bu ba", "do du da")
    weights = load_file(small["reranker"] / "model.safetensors")
    config = json.loads((small["reranker"] / "config.json").read_text())
    ids = reranker.tokenizer.encode("bu ba", "do du da").ids
    assert tokens == len(ids) == 9
    assert abs(got - reference.logit(weights, config, ids)) < 1e-4


def test_vectors_are_those_of_the_reference(small: dict[str, Path]) -> None:
    with torch.inference_mode():
        embedder = oracle.Embedder(small["embedder"], "cpu")
        got, _ = embedder("search_query", "do du da")
    weights = load_file(small["embedder"] / "model.safetensors")
    config = json.loads((small["embedder"] / "config.json").read_text())
    ids = embedder.tokenizer.encode("search_query: do du da").ids
    wanted = reference.nomic_layers(weights, config, ids)[-1].mean(axis=0)
    np.testing.assert_allclose(got, wanted, atol=1e-4)


def drawn(small: dict[str, Path], folder: Path, bad_percent: float) -> tuple[mixture.Mixture, dict[str, np.ndarray]]:
    pool = mixture.pool(folder, small, texts=16, queries=2, passages=4)
    (folder / "pool.json").write_text(json.dumps(pool))
    answers = oracle.answers(pool, "cpu")
    np.savez(folder / "answers.npz", **answers)
    return mixture.Mixture(folder / "pool.json", folder / "answers.npz", "fp16", bad_percent, seed=5), answers


def test_the_soak_finds_fault_with_an_answer_to_another_text(small: dict[str, Path], tmp_path: Path) -> None:
    mixed, answers = drawn(small, tmp_path, bad_percent=0)
    rows = [0, 4]
    tokens = answers["text_tokens"][rows][None]
    right = answers["vectors"][rows] / np.linalg.norm(answers["vectors"][rows], axis=1, keepdims=True)
    judge = mixed._judge_vectors
    assert judge({"embeddings": right[None], "token_counts": tokens}, rows, {}) == ""
    mixed._has_ties = False
    assert "1 - cos" in judge({"embeddings": right[None, ::-1], "token_counts": tokens}, rows, {})


def test_only_a_routing_tie_excuses_a_different_answer(small: dict[str, Path], tmp_path: Path) -> None:
    mixed, answers = drawn(small, tmp_path, bad_percent=0)
    vectors, direction = answers["vectors"], np.random.default_rng(1).normal(size=answers["vectors"].shape[1])
    both = np.stack((vectors[4] / np.linalg.norm(vectors[4]), direction / np.linalg.norm(direction)))
    answer = {"embeddings": both[None], "token_counts": answers["text_tokens"][[4, 0]][None]}
    assert mixed._judge_vectors(answer, [4, 0], {}) == ""
    (doubt,) = mixed.doubtful
    assert [text for text, _ in doubt] == [0]
    assert mixture.fault_of(doubt, {0: np.stack((vectors[0], direction))}, "fp16") == ""
    assert "1 - cos" in mixture.fault_of(doubt, {0: vectors[:1]}, "fp16")


def test_a_soak_counts_differences_without_a_tie_as_faults(small: dict[str, Path], tmp_path: Path) -> None:
    _, answers = drawn(small, tmp_path, bad_percent=0)
    moved = answers["vectors"][[1, 2]] + np.array([[0.0], [3.0]]) * np.arange(answers["vectors"].shape[1])
    files = {"pool": str(tmp_path / "pool.json"), "answers": str(tmp_path / "answers.npz")}
    tally = soak.Tally(good=2, doubtful=[[(1, moved[0])], [(2, moved[1])]])
    soak.classify_doubtful(soak.parser().parse_args(["--device", "cpu", "--set", "dtype=fp16"]), tally, files)
    assert (tally.good, tally.on_a_tie, sum(tally.faults.values())) == (1, 1, 1)


def test_tiny_changes_of_router_logits_change_an_answer_as_little(small: dict[str, Path]) -> None:
    with torch.inference_mode():
        embedder = oracle.Embedder(small["embedder"], "cpu")
        right, _ = embedder("search_query", "do du da")
        embedder.tie_share = 1e-6
        moved, _ = embedder("search_query", "do du da")
    assert 0 < np.abs(moved - right).max() < 1e-4


def test_the_soak_finds_fault_with_a_refused_good_request(small: dict[str, Path], tmp_path: Path) -> None:
    mixed, _ = drawn(small, tmp_path, bad_percent=0)
    assert "refused" in mixed.draw().fault(Refused("UNAVAILABLE", "queue is full"))


def test_the_soak_finds_fault_with_an_answered_mistake(small: dict[str, Path], tmp_path: Path) -> None:
    mixed, _ = drawn(small, tmp_path, bad_percent=100)
    assert mixed.draw().fault({"scores": np.zeros((1, 1))}) == "a mistake was answered"
