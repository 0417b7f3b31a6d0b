"""Refusals at load, with the field's name: the worst checkpoint would answer with plausible numbers."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from encoders import families
from encoders.checkpoint import Kind, load_strictly
from encoders.embedding import Embedder
from encoders.errors import CheckpointError
from encoders.reranking import Reranker
from tests.encoders import checkpoints, reference
from tests.encoders.checkpoints import NOMIC, on_cpu

ROUTER = "encoder.layers.1.mlp.router.layer.weight"


@pytest.fixture
def weights() -> checkpoints.Weights:
    """Returns weights of a NomicBert checkpoint, for a test to spoil."""
    return checkpoints.weights_for(NOMIC)


def refusal(directory: Path, **settings: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        Embedder(on_cpu(directory, **settings))
    return str(caught.value).replace(str(directory), "DIR")


def test_a_missing_weight_is_named(tmp_path: Path, weights: checkpoints.Weights) -> None:
    del weights[ROUTER]
    assert refusal(checkpoints.write(tmp_path, NOMIC, weights)) == (
        f"DIR: the weights are not those of this architecture: 1 missing ({ROUTER})"
    )


def test_an_unexpected_weight_is_named(tmp_path: Path, weights: checkpoints.Weights) -> None:
    weights["encoder.layers.0.mlp.fc12.weight"] = np.zeros((4, 4), np.float32)
    assert refusal(checkpoints.write(tmp_path, NOMIC, weights)) == (
        "DIR: the weights are not those of this architecture: 1 unexpected (encoder.layers.0.mlp.fc12.weight)"
    )


def test_another_shape_is_refused(tmp_path: Path, weights: checkpoints.Weights) -> None:
    weights[ROUTER] = weights[ROUTER].T.copy()
    assert refusal(checkpoints.write(tmp_path, NOMIC, weights)) == (
        f"DIR/model.safetensors: {ROUTER} is F32 [64, 8]; wanted [8, 64] of F32/F16/BF16"
    )


def test_quantised_weights_are_refused(tmp_path: Path, weights: checkpoints.Weights) -> None:
    weights[ROUTER] = weights[ROUTER].astype(np.int8)
    assert f"{ROUTER} is I8" in refusal(checkpoints.write(tmp_path, NOMIC, weights))


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    checkpoints.write(tmp_path, NOMIC, {})
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    assert refusal(tmp_path) == (
        "DIR: model.safetensors or its index is missing; found only a pickle, pytorch_model.bin, which is never loaded"
    )


def test_a_cut_off_file_is_refused(tmp_path: Path, weights: checkpoints.Weights) -> None:
    path = checkpoints.write(tmp_path, NOMIC, weights) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert "cannot be read as safetensors" in refusal(tmp_path)


def test_shards_named_by_an_index_load_like_one_file(tmp_path: Path, nomic: Path) -> None:
    shard(checkpoints.write(tmp_path, NOMIC, {}), load_file(nomic / "model.safetensors"))
    shapes = families.choose(nomic, families.EMBEDDERS).shapes()
    whole, parts = (load_strictly(shapes, directory, Kind(torch.float32)) for directory in (nomic, tmp_path))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(tensor, parts[name]) for name, tensor in whole.items())


def test_a_missing_shard_is_named(tmp_path: Path, weights: checkpoints.Weights) -> None:
    shard(checkpoints.write(tmp_path, NOMIC, {}), weights)
    (tmp_path / "b.safetensors").unlink()
    assert refusal(tmp_path) == "DIR: b.safetensors, named by the index, is missing"


def test_an_index_does_not_lead_out_of_the_directory(tmp_path: Path, weights: checkpoints.Weights) -> None:
    shard(checkpoints.write(tmp_path, NOMIC, {}), weights, second="../b.safetensors")
    assert "`../b.safetensors` is no safetensors file of this directory" in refusal(tmp_path)


def shard(directory: Path, weights: checkpoints.Weights, second: str = "b.safetensors") -> None:
    (directory / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, held in parts.items():
        save_file({name: weights[name] for name in held}, directory / file)
    where = dict.fromkeys(names[::2], "a.safetensors") | dict.fromkeys(names[1::2], second)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


def test_saved_position_ids_are_the_known_harmless_extra(tmp_path: Path) -> None:
    weights = checkpoints.weights_for(checkpoints.XLMR)
    weights["roberta.embeddings.position_ids"] = np.arange(130)[None]
    Reranker(on_cpu(checkpoints.write(tmp_path, checkpoints.XLMR, weights)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "architecture is LlamaForCausalLM; this model serves BertModel, "),
        ({"num_experts": 0}, "activation_function is 'gelu'; only 'swiglu' is served"),
        ({"rotary_emb_interleaved": True}, "rotary_emb_interleaved is True; only False is served"),
        ({"moe_normalize_expert_weights": True}, "moe_normalize_expert_weights is True; only False is served"),
        ({"activation_function": "swiglu"}, "activation_function is 'swiglu'; only 'gelu' is served"),
        ({"n_embd": 60}, "encoder.layers.0.attn.Wqkv.bias is F32 [192]; wanted [180] of F32/F16/BF16"),
    ],
)
def test_a_config_that_declares_another_network_is_refused(
    tmp_path: Path, weights: checkpoints.Weights, change: dict[str, Any], message: str
) -> None:
    assert message in refusal(checkpoints.write(tmp_path, NOMIC | change, dict(sorted(weights.items())[4:])))


def test_a_missing_config_key_is_named(tmp_path: Path, weights: checkpoints.Weights) -> None:
    config = {key: value for key, value in NOMIC.items() if key != "rotary_emb_base"}
    assert refusal(checkpoints.write(tmp_path, config, weights)) == "DIR/config.json: 'rotary_emb_base' is missing"


def test_a_reranker_is_refused_as_an_embedder(xlmr: Path) -> None:
    assert refusal(xlmr) == (
        "DIR/config.json: architecture is XLMRobertaForSequenceClassification; "
        f"this model serves {', '.join(families.EMBEDDERS)}"
    )


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, weights: checkpoints.Weights, name: str) -> None:
    (checkpoints.write(tmp_path, NOMIC, weights) / name).unlink()
    assert refusal(tmp_path) == f"DIR: {name} is missing"


def test_a_tokenizer_larger_than_the_embedding_table_is_refused(tmp_path: Path) -> None:
    config = NOMIC | {"vocab_size": 100}
    checkpoints.write(tmp_path, config, checkpoints.weights_for(config))
    assert refusal(tmp_path) == ("DIR/tokenizer.json: highest token id is 118, but the embedding table has 100 rows")


def pooling(directory: Path, config: dict[str, Any]) -> Path:
    checkpoints.write(directory, checkpoints.BERT, checkpoints.weights_for(checkpoints.BERT))
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(config))
    return directory


def test_a_pooling_that_is_not_served_is_named(tmp_path: Path) -> None:
    pooling(tmp_path, {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True})
    assert refusal(tmp_path) == (
        "DIR/1_Pooling/config.json: pooling is mean + max_tokens; only mean, cls or last is served"
    )


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["Transformer", "Pooling", "LSTM"], "step LSTM is not served; only Transformer, Pooling, Dense, Normalize"),
        (["Transformer", "Dense", "Pooling"], "steps are Transformer, Dense, Pooling; only served in the usual order"),
        (["Transformer", "Pooling", "Dense"], "`../2` is no directory of this checkpoint"),
    ],
)
def test_a_step_after_the_network_that_is_not_computed_is_refused(
    tmp_path: Path, kinds: list[str], message: str
) -> None:
    pooling(tmp_path, {"pooling_mode_mean_tokens": True})
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": "../2"} for kind in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    assert message in refusal(tmp_path)


def test_cls_pooling_is_read_from_the_checkpoint(tmp_path: Path, corpus: list[str]) -> None:
    embedder = Embedder(on_cpu(pooling(tmp_path, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})))
    job = embedder.read([[corpus]], (1, len(corpus)), '{"normalize": false}')
    embedder.work([job])
    states = [
        reference.bert_layers(load_file(tmp_path / "model.safetensors"), checkpoints.BERT, list(ids))[-1]
        for ids in job.sequences
    ]
    firsts = np.stack([state[0] for state in states])
    np.testing.assert_allclose(embedder.answer(job)["embeddings"][0], firsts, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 4096}, "config.pbtxt: max_tokens is 4096; DIR has positions for 2048"),
        ({"dimensions": 768}, "config.pbtxt: dimensions is 768; DIR has vectors of 64"),
        ({"device": "cuda:7"}, "config.pbtxt: device is cuda:7; this process sees 0 CUDA devices"),
    ],
)
def test_settings_the_checkpoint_or_machine_cannot_honour_are_refused(
    nomic: Path, settings: dict[str, Any], message: str
) -> None:
    assert refusal(nomic, **settings) == message
