"""Both published sizes with random weights on a CUDA device: 16-bit gates, the memory cap, the warm workspace."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders.embedding import Embedder
from encoders.reranking import Reranker
from encoders.settings import Settings
from tests.encoders import checkpoints
from tests.encoders.closeness import distance

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device that torch can see"),
]

NOMIC = checkpoints.NOMIC | {"n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "vocab_size": 250048}
BGE = checkpoints.XLMR | {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
BGE |= {"intermediate_size": 4096, "max_position_embeddings": 514, "vocab_size": 250002}


def full_size(directory: Path, config: dict[str, Any]) -> Path:
    return checkpoints.write(directory, config, checkpoints.weights_for(config, deviation=0.02))


@pytest.fixture(scope="module")
def nomic_full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """nomic-embed-text-v2-moe's size."""
    return full_size(tmp_path_factory.mktemp("nomic_full"), NOMIC)


@pytest.fixture(scope="module")
def bge_full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bge-reranker-large's size."""
    return full_size(tmp_path_factory.mktemp("bge_full"), BGE)


def vectors(settings: Settings, corpus: list[str]) -> np.ndarray:
    embedder = Embedder(settings)
    job = embedder.read([[corpus]], (1, len(corpus)), None)
    embedder.work([job])
    print(settings.dtype, embedder.budget, "tokens a pass,", embedder.runner.held_mib(), "MiB held")
    return embedder.answer(job)["embeddings"][0]


def scores(settings: Settings, corpus: list[str]) -> np.ndarray:
    reranker = Reranker(settings)
    job = reranker.read([[["river bank"]], [corpus]], (1, len(corpus)), None)
    reranker.work([job])
    print(settings.dtype, reranker.budget, "tokens a pass,", reranker.runner.held_mib(), "MiB held")
    return reranker.answer(job)["scores"][0]


@pytest.mark.parametrize(("dtype", "gate"), [("fp32", 1e-6), ("fp16", 1e-4), ("bf16", 3e-4)])
def test_vectors_stay_within_their_gate(nomic_full: Path, corpus: list[str], dtype: str, gate: float) -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    wanted = vectors(checkpoints.on_cpu(nomic_full), corpus)
    got = vectors(Settings(model_path=str(nomic_full), dtype=dtype), corpus)
    print(distance(got, wanted))
    assert distance(got, wanted).cosine <= gate


@pytest.mark.parametrize(("dtype", "gate"), [("fp32", 1e-4), ("fp16", 5e-3), ("bf16", 3e-2)])
def test_logits_stay_within_their_gate(bge_full: Path, corpus: list[str], dtype: str, gate: float) -> None:
    wanted = scores(checkpoints.on_cpu(bge_full), corpus)
    got = scores(Settings(model_path=str(bge_full), dtype=dtype), corpus)
    print(np.abs(got - wanted).max(), "of a spread of", np.ptp(wanted))
    assert np.abs(got - wanted).max() <= gate


def test_a_memory_cap_halves_the_pass_instead_of_failing(nomic_full: Path) -> None:
    gc.collect()
    torch.cuda.empty_cache()
    try:
        tight = Embedder(Settings(model_path=str(nomic_full), memory_mib=1400, max_batch_tokens=65536))
        print(tight.budget, "tokens a pass,", tight.runner.held_mib(), "MiB held")
        assert 512 <= tight.budget < 65536
        assert tight.runner.held_mib() <= 1400
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
