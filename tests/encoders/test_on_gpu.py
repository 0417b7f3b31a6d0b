"""Both published sizes with random weights on a CUDA device, against the numpy reference, one sequence at a time.

Random weights give all texts one large common state; trained weights do not. So the projections after GELU lose their
mean here, other common terms are small, and the gates also hold for the differences between texts.
"""

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders.embedding import Embedder
from encoders.reranking import Reranker
from encoders.settings import Settings
from tests.encoders import checkpoints, reference, ties
from tests.encoders.closeness import distance

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device that torch can see"),
]

NOMIC = checkpoints.NOMIC | {"n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "vocab_size": 250048}
BGE = checkpoints.XLMR | {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
BGE |= {"intermediate_size": 4096, "max_position_embeddings": 514, "vocab_size": 250002}


DEVICE = "cuda:0"
FULL = 40
"""Repetitions of the sequences in one pass of 8,120 tokens, for which other kernels run than for a small pass
(linear.by_rows)."""
PLAN_MIB = {"nomic": 2131, "bge": 2412}
"""MiB that deploy/models/memory.py grants each in fp16 at 16,384 tokens a pass, with bge's two streams."""
STREAMS = {"nomic": 1, "bge": 2}


@pytest.fixture(autouse=True)
def emptied() -> Iterator[None]:
    """Clears memory and memory caps of earlier tests."""
    yield
    gc.collect()
    # cuBLAS keeps its workspaces per stream, and they lie in the memory pool of the graphs.
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.fixture(scope="module")
def sequences() -> list[np.ndarray]:
    """Returns token ids of 8 to 60 tokens, with special tokens around them."""
    rng = np.random.default_rng(3)
    lengths = (60, 8, 24, 16, 33, 9, 41, 12)
    return [np.concatenate(([0], rng.integers(4, 250_000, n - 2), [2])).astype(np.int32) for n in lengths]


def spread(weights: checkpoints.Weights, config: dict[str, Any]) -> checkpoints.Weights:
    """Returns `weights` without the mean that projections after GELU add to every token, and with small biases."""
    for name, weight in weights.items():
        if name.endswith((".bias", "token_type_embeddings.weight")):
            weights[name] = weight / 10
        if name.endswith("fc2.weight"):
            weights[name] = weight - weight.mean(1, keepdims=True)
        if name.endswith("experts.mlp.w2"):
            stack = weight.reshape(config["num_experts"], config["n_inner"], config["n_embd"])
            weights[name] = (stack - stack.mean(1, keepdims=True)).reshape(weight.shape)
    return weights


Following = Callable[[np.ndarray, reference.Sent], np.ndarray]


@pytest.fixture(scope="module")
def nomic_full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Following]:
    """Returns a checkpoint of nomic-embed-text-v2-moe's size, and the reference's vector for given experts."""
    weights = spread(checkpoints.weights_for(NOMIC, deviation=0.02), NOMIC)
    known: dict[tuple[bytes, bytes, float], np.ndarray] = {}

    def following(ids: np.ndarray, sent: reference.Sent) -> np.ndarray:
        key = ids.tobytes(), np.sort(sent.experts).tobytes(), sent.lead
        if key not in known:
            known[key] = reference.unit_mean(reference.nomic_layers(weights, NOMIC, ids.tolist(), sent=sent)[-1])
        return known[key]

    return checkpoints.write(tmp_path_factory.mktemp("nomic_full"), NOMIC, weights), following


@pytest.fixture(scope="module")
def bge_full(tmp_path_factory: pytest.TempPathFactory, sequences: list[np.ndarray]) -> tuple[Path, np.ndarray]:
    """Returns a checkpoint of bge-reranker-large's size, and its logits of `sequences`."""
    weights = checkpoints.weights_for(BGE, deviation=0.02)
    wanted = [reference.logit(weights, BGE, ids.tolist()) for ids in sequences]
    return checkpoints.write(tmp_path_factory.mktemp("bge_full"), BGE, weights), np.array(wanted)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("dtype", "gate"), [("fp32", 1e-6), ("fp16", 1e-4), ("bf16", 1.5e-4)])
def test_vectors_stay_within_their_gate_also_without_the_corpus_mean(
    nomic_full: tuple[Path, Following], sequences: list[np.ndarray], dtype: str, gate: float
) -> None:
    """The test runs without graphs, in which tokens cannot be traced; another test below compares the two."""
    embedder = Embedder(Settings(model_path=str(nomic_full[0]), dtype=dtype))
    runner = embedder.runner
    runner.lanes[0].offered = []
    for texts in (sequences, sequences * FULL):
        got, sent = ties.watched(runner._kernels, partial(runner, texts), [*map(len, texts)], ties.LEAD[dtype])
        wanted = np.stack([nomic_full[1](ids, sent_text) for ids, sent_text in zip(texts, sent, strict=True)])
        seen = distance(unit(got), wanted)
        print(dtype, len(texts), embedder.notes, seen, "vectors alike by", (wanted[:8] @ wanted[:8].T).mean())
        assert seen.cosine <= gate and seen.centred <= gate


@pytest.mark.parametrize(("dtype", "gate"), [("fp32", 1e-4), ("fp16", 5e-3), ("bf16", 3e-2)])
def test_logits_stay_within_their_gate(
    bge_full: tuple[Path, np.ndarray], sequences: list[np.ndarray], dtype: str, gate: float
) -> None:
    reranker = Reranker(Settings(model_path=str(bge_full[0]), dtype=dtype))
    for times in (1, FULL):
        seen = np.abs(reranker.runner(sequences * times) - np.tile(bge_full[1], times)).max()
        print(dtype, times, reranker.notes, seen, "of a spread of", np.ptp(bge_full[1]))
        assert seen <= gate


@pytest.mark.parametrize("fixture", ["nomic_full", "bge_full"])
def test_batch_mates_order_cut_and_room_do_not_show(
    fixture: str, sequences: list[np.ndarray], request: pytest.FixtureRequest
) -> None:
    kind = Embedder if fixture == "nomic_full" else Reranker
    runner = kind(Settings(model_path=str(request.getfixturevalue(fixture)[0]))).runner
    alone = np.concatenate([runner([ids]) for ids in sequences])
    shuffled = runner(sequences[::-1])[::-1]
    for lane in runner.lanes:
        lane.offered = []
    eager = np.concatenate([runner(sequences[:3]), runner(sequences[3:])])
    for variant in (shuffled, eager):
        if fixture == "bge_full":
            assert np.abs(variant - alone).max() <= 2e-3
        else:
            assert np.abs(unit(variant) - unit(alone)).max() <= 2e-3
            assert distance(unit(variant), unit(alone)).cosine <= 1e-4


@pytest.mark.parametrize(("fixture", "kind"), [("nomic_full", Embedder), ("bge_full", Reranker)])
def test_weights_workspace_and_graphs_stay_within_what_the_plan_grants(
    fixture: str, kind: Any, request: pytest.FixtureRequest
) -> None:
    torch.cuda.reset_peak_memory_stats()
    name = fixture.removesuffix("_full")
    granted, path = PLAN_MIB[name], str(request.getfixturevalue(fixture)[0])
    model = kind(Settings(model_path=path, memory_mib=granted, streams=STREAMS[name]))
    rng = np.random.default_rng(5)
    for _ in range(20):
        lengths = rng.integers(4, 512, 30)
        model.runner.launch([np.full(n, 7, np.int32) for n in lengths], True).wait()
    print(fixture, model.runner.held_mib(), "MiB held,", model.runner.peak_bytes() >> 20, "at the peak of", granted)
    assert model.budget == 16384 and len(model.runner.lanes) == STREAMS[name]
    assert all(len(lane.offered) >= 12 for lane in model.runner.lanes)
    assert model.runner.peak_bytes() <= granted << 20


@pytest.mark.parametrize(("fixture", "kind"), [("nomic_full", Embedder), ("bge_full", Reranker)])
def test_concurrent_passes_equal_separate_passes(
    fixture: str, kind: Any, sequences: list[np.ndarray], request: pytest.FixtureRequest
) -> None:
    """Results are equal bit by bit: each stream has its own workspace, in passes of every size, with and without
    graphs."""
    runner = kind(Settings(model_path=str(request.getfixturevalue(fixture)[0]), streams=2)).runner
    passes = [sequences * times for times in (FULL, 1, 70, 3, FULL, 9, 70, 25)] * 3
    before, began = runner.time.seconds, time.monotonic()
    for graphs in (True, False):
        if not graphs:
            for lane in runner.lanes:
                lane.offered = []
        alone = [runner(texts) for texts in passes]
        running = [runner.launch(texts, True) for texts in passes]
        for here, under_way in zip(alone, running, strict=True):
            np.testing.assert_array_equal(under_way.wait(), here)
    assert 0.0 < runner.time.seconds - before <= time.monotonic() - began


def test_a_memory_cap_halves_the_pass_instead_of_failing(nomic_full: tuple[Path, Following]) -> None:
    tight = Embedder(Settings(model_path=str(nomic_full[0]), memory_mib=1300, max_batch_tokens=65536))
    print(tight.budget, "tokens a pass,", tight.runner.held_mib(), "MiB held")
    assert 512 <= tight.budget < 65536
    assert tight.runner.held_mib() <= 1300


def test_8_bit_products_keep_the_order_of_scores_and_report_their_shift(
    bge_full: tuple[Path, np.ndarray], sequences: list[np.ndarray]
) -> None:
    reranker = Reranker(Settings(model_path=str(bge_full[0]), products="fp8"))
    got = reranker.runner(sequences)
    print(reranker.notes[-1], np.abs(got - bge_full[1]).max())
    assert reranker.notes[-1].startswith("fp8 products (states moved by 1 - cosine 0.0")
    assert np.corrcoef(got, bge_full[1])[0, 1] > 0.8
