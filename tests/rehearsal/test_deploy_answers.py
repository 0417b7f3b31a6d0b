"""Answers of a deployed machine to clients on the outer machine, against independent computations."""

from __future__ import annotations

import functools
import json
import subprocess
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import tritonclient.grpc
import tritonclient.http
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from tests.encoders import reference
from tests.encoders.closeness import distance
from tests.encoders.reference import Mistakes
from tests.rehearsal.conftest import Pair
from tests.smoke import ask

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("number-4")]

PARAPHRASES = ("A man is eating food.", "A man eats something.")
UNRELATED = "The stock market fell sharply on Monday."
SENTENCES = [
    *PARAPHRASES,
    UNRELATED,
    "Share prices dropped steeply at the beginning of the week.",
    "Ärger 😀 with 漢字 and emoji",
    "Steam lifts the piston, the piston turns the wheel. " * 12,
]
QUERY = "What is the capital of France?"
PASSAGES = ["Paris is the capital of France.", "Bananas are yellow. " * 30, "No.", "Berlin lies on the Spree. " * 4]
FP32_GATE = 1e-6
NOMIC_MISTAKES = {
    "mask-less mean": Mistakes(pad_to=100),
    "rope theta 1000": Mistakes(rotary_base=1000.0),
    "renormalised top-2": Mistakes(renormalised_routing=True),
    "expert bias scaled by routing weights": Mistakes(expert_bias_weighted=True),
    "interleaved rotary": Mistakes(interleaved_rotary=True),
}
RERANKER_MISTAKES = {
    "positions from 0": Mistakes(positions_from_zero=True),
    "no mask": Mistakes(pad_to=200, attend_to_padding=True),
}
FLAVOURS = {"http": (tritonclient.http, 8000), "grpc": (tritonclient.grpc, 8001)}


@pytest.fixture(params=FLAVOURS)
def client(deployed: Pair, request: pytest.FixtureRequest) -> Any:
    """Returns each flavour of tritonclient in turn (HTTP, gRPC), connected to the Debian 12 machine."""
    module, port = FLAVOURS[request.param]
    with module.InferenceServerClient(f"{deployed.d12.address}:{port}") as opened:
        yield opened


def test_curl_gets_a_real_sentence_embedding_from_both_machines(deployed: Pair) -> None:
    for machine in deployed.both:
        first, second, unrelated = curl_embeddings(machine.address, [*PARAPHRASES, UNRELATED])
        assert first @ second - max(first @ unrelated, second @ unrelated) >= 0.3


def curl_embeddings(address: str, texts: list[str]) -> np.ndarray:
    """Returns unit vectors of minilm, requested only with curl and JSON."""
    tensor = {"name": "texts", "shape": [1, len(texts)], "datatype": "BYTES", "data": texts}
    url = f"http://{address}:8000/v2/models/minilm/infer"
    command = ["curl", "--silent", "--show-error", "--fail", "--json", json.dumps({"inputs": [tensor]}), url]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)
    outputs = {output["name"]: output for output in answer["outputs"]}
    return np.array(outputs["embeddings"]["data"]).reshape(len(texts), 384)


def test_embeddings_equal_an_independent_float32_computation_of_the_same_weights(deployed: Pair, client: Any) -> None:
    checkpoint = deployed.services.checkpoints / "minilm"
    wanted = [reference.bert_layers(*read(checkpoint), ids)[-1] for ids in tokens(checkpoint, SENTENCES)]
    got = ask.embed(client, "minilm", [SENTENCES])[0]
    assert distance(got, np.stack([reference.unit_mean(states) for states in wanted])).within(FP32_GATE)


def test_rerank_scores_of_a_mixed_batch_equal_transformers_own_class(deployed: Pair, client: Any) -> None:
    wanted = transformers_scores(deployed.services.checkpoints / "xlmr-reranker")
    assert np.ptp(wanted) > 0.05
    assert np.abs(ask.rerank(client, "xlmr-reranker", QUERY, PASSAGES) - wanted).max() <= 1e-3


@pytest.mark.parametrize("wrong", RERANKER_MISTAKES.values(), ids=RERANKER_MISTAKES.keys())
def test_a_known_mistake_of_rerankers_would_have_failed_that_gate(deployed: Pair, wrong: Mistakes) -> None:
    checkpoint = deployed.services.checkpoints / "xlmr-reranker"
    pairs = tokens(checkpoint, [(QUERY, passage) for passage in PASSAGES])
    got = ask.rerank(over_http(deployed), "xlmr-reranker", QUERY, PASSAGES)
    assert np.abs(got - [reference.logit(*read(checkpoint), ids, wrong) for ids in pairs]).max() > 1e-3


def test_the_mixture_of_experts_equals_a_plain_reference(deployed: Pair, client: Any) -> None:
    got = ask.embed(client, "nomic-moe", [SENTENCES])[0]
    assert distance(got, nomic_reference(deployed.services.checkpoints, reference.RIGHT)).within(FP32_GATE)


@pytest.mark.parametrize("wrong", NOMIC_MISTAKES.values(), ids=NOMIC_MISTAKES.keys())
def test_a_known_mistake_of_that_network_would_have_failed_the_gate(deployed: Pair, wrong: Mistakes) -> None:
    got = ask.embed(over_http(deployed), "nomic-moe", [SENTENCES])[0]
    assert distance(got, nomic_reference(deployed.services.checkpoints, wrong)).cosine > 1e-4


@pytest.mark.parametrize(("rows", "texts"), [(1, 1), (1, 33), (3, 2), (2, 33)])
def test_any_number_of_rows_and_texts_comes_back_in_shape(client: Any, rows: int, texts: int) -> None:
    texts_by_row = [[f"row {row}, text {text}" for text in range(texts)] for row in range(rows)]
    assert ask.embed(client, "minilm", texts_by_row).shape == (rows, texts, 384)
    assert ask.embed(client, "nomic-moe", texts_by_row).shape == (rows, texts, 64)


def over_http(deployed: Pair) -> tritonclient.http.InferenceServerClient:
    """Returns a client of the Debian 13 machine."""
    return tritonclient.http.InferenceServerClient(f"{deployed.d13.address}:8000")


def read(checkpoint: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns weights by name, and the configuration."""
    return load_file(checkpoint / "model.safetensors"), json.loads((checkpoint / "config.json").read_text())


def tokens(checkpoint: Path, texts: list[Any]) -> list[list[int]]:
    """Returns ids of texts, or of pairs of texts, by the checkpoint's own tokenizer."""
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return [encoding.ids for encoding in tokenizer.encode_batch(texts)]


@functools.cache
def nomic_reference(checkpoints: Path, wrong: Mistakes) -> np.ndarray:
    """Returns unit vectors of SENTENCES as documents, by the plain reference with one mistake in it."""
    weights, config = read(checkpoints / "nomic-moe")
    sequences = tokens(checkpoints / "nomic-moe", [f"search_document: {text}" for text in SENTENCES])
    layers = [reference.nomic_layers(weights, config, ids, wrong)[-1] for ids in sequences]
    return np.stack([reference.unit_mean(states) for states in layers])


def transformers() -> ModuleType:
    """Imports the library without its own deprecation warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers", reason="pip install transformers, in the test group of the lock")


def transformers_scores(checkpoint: Path) -> np.ndarray:
    """Returns the logits of PASSAGES, padded to one batch for transformers."""
    model = transformers().XLMRobertaForSequenceClassification.from_pretrained(checkpoint).eval()
    ids = [torch.tensor(ids_of_pair) for ids_of_pair in tokens(checkpoint, [(QUERY, passage) for passage in PASSAGES])]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=1)
    mask = torch.arange(padded.shape[1])[None] < torch.tensor([len(ids_of_pair) for ids_of_pair in ids])[:, None]
    with torch.inference_mode():
        return model(input_ids=padded, attention_mask=mask.long()).logits[:, 0].numpy()
