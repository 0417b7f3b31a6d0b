"""Checkpoints made on the machine: the published shapes, and the requirements for serving a Llama of them."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest
from safetensors import safe_open
from tokenizers import Tokenizer

from benchmarks.checkpoints import BGE, NOMIC, bge_shapes, nomic_shapes
from deploy.catalog.checkpoints import CHECKPOINTS
from rehearsal import hub_repository
from rehearsal.real_gpu import weights


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "llama"
    weights.llama(folder, "tiny", "cpu")
    return folder


def test_the_large_checkpoints_have_as_many_parameters_as_the_catalog_says() -> None:
    shapes = {
        weights.LLAMA: weights.llama_shapes(weights.LLAMA_8B),
        weights.RERANKER: bge_shapes(BGE),
        weights.EMBEDDER: nomic_shapes(NOMIC),
    }
    for name, tensors in shapes.items():
        assert sum(prod(shape) for _, shape in tensors) == CHECKPOINTS[name].shape.parameters


def test_every_id_of_the_published_vocabulary_is_in_the_tokenizer() -> None:
    tokenizer = weights.llama_tokenizer(128_256)
    assert tokenizer.get_vocab_size() == 128_256
    assert tokenizer.token_to_id("<|begin_of_text|>") == 128_000
    assert tokenizer.token_to_id("<|eot_id|>") == 128_009
    assert tokenizer.id_to_token(127_999)


def test_every_id_of_the_tiny_llama_decodes_to_text(tiny: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tiny / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == json.loads((tiny / "config.json").read_text())["vocab_size"]
    assert all(tokenizer.decode([number], skip_special_tokens=False) for number in range(tokenizer.get_vocab_size()))


def test_a_known_word_is_one_token_and_any_text_comes_back(tiny: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tiny / "tokenizer.json"))
    known = tokenizer.decode([300])
    assert tokenizer.encode(known, add_special_tokens=False).ids == [300]
    assert tokenizer.decode(tokenizer.encode("Schöne Grüße, 猫!").ids) == "Schöne Grüße, 猫!"


def test_the_shards_have_the_tensors_of_the_index(tiny: Path) -> None:
    index = json.loads((tiny / "model.safetensors.index.json").read_text())
    tensors_of = {}
    for shard in tiny.glob("*.safetensors"):
        with safe_open(shard, framework="pt") as tensors:
            tensors_of |= {name: (shard.name, tuple(tensors.get_slice(name).get_shape())) for name in tensors.keys()}  # noqa: SIM118
    assert {name: shard for name, (shard, _) in tensors_of.items()} == index["weight_map"]
    assert {name: shape for name, (_, shape) in tensors_of.items()} == dict(weights.llama_shapes(weights.LLAMA_TINY))
    assert len(set(index["weight_map"].values())) == weights.SHARDS


def test_weights_that_are_made_again_have_the_same_commit(tiny: Path, tmp_path: Path) -> None:
    weights.llama(tmp_path / "llama", "tiny", "cpu")
    assert hub_repository.read_repository(tmp_path / "llama").commit == hub_repository.read_repository(tiny).commit
