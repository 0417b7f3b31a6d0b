"""BERT and RoBERTa against transformers' own classes, weights written by transformers itself.

transformers is a dependency of this test only. Its NomicBert class is that of v1 and v1.5, and is not used for v2.
"""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from encoders.embedding import Embedder
from encoders.reranking import Reranker
from tests.encoders import checkpoints
from tests.encoders.checkpoints import on_cpu

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own deprecations at import are not ours to fix
    transformers = pytest.importorskip("transformers", reason="pip install transformers, in the test group of the lock")


def saved(directory: Path, kind: str, config: dict) -> torch.nn.Module:
    """Saves a random model of transformers' class `kind` and a tokenizer in `directory`."""
    torch.manual_seed(5)
    settings = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "label2id")}
    model = getattr(transformers, kind)(getattr(transformers, kind).config_class(**settings, initializer_range=0.15))
    model.eval().save_pretrained(directory)
    (checkpoints.wordpiece() if kind.startswith("Bert") else checkpoints.unigram()).save(
        str(directory / "tokenizer.json")
    )
    return model


def test_rerank_scores_match_transformers_for_a_mixed_length_batch(tmp_path: Path, corpus: list[str]) -> None:
    theirs = saved(tmp_path, "XLMRobertaForSequenceClassification", checkpoints.XLMR)
    ours = Reranker(on_cpu(tmp_path))
    query = "which river flows in london"
    job = ours.read([[[query]], [corpus]], (1, len(corpus)), None)
    ours.work([job])
    ids = [torch.tensor(s).long() for s in job.sequences]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=1)
    mask = torch.arange(padded.shape[1])[None] < torch.tensor([len(s) for s in ids])[:, None]
    with torch.inference_mode():
        wanted = theirs(input_ids=padded, attention_mask=mask.long()).logits[:, 0].numpy()
    assert np.abs(ours.answer(job)["scores"][0] - wanted).max() <= 1e-5
    assert np.ptp(wanted) > 0.1


def test_the_pair_ids_are_those_of_the_tokenizers_own_pair_encoding(xlmr: Path, corpus: list[str]) -> None:
    tokenizer = checkpoints.unigram()
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ours = Reranker(on_cpu(xlmr))
    job = ours.read([[["the cat sat"]], [corpus]], (1, len(corpus)), None)
    ours.work([job])
    wanted = [tokenizer.encode("the cat sat", text).ids for text in corpus]
    assert [ids.tolist() for ids in job.sequences] == wanted


@pytest.mark.parametrize(
    ("kind", "config"),
    [("BertModel", checkpoints.BERT)]
    + [(f"{name}Model", checkpoints.XLMR) for name in ("XLMRoberta", "Roberta", "Camembert")],
)
def test_mean_embeddings_match_transformers(tmp_path: Path, corpus: list[str], kind: str, config: dict) -> None:
    theirs = saved(tmp_path, kind, config)
    ours = Embedder(on_cpu(tmp_path))
    job = ours.read([[corpus]], (1, len(corpus)), None)
    ours.work([job])
    with torch.inference_mode():
        states = [theirs(input_ids=torch.tensor(s)[None].long()).last_hidden_state[0] for s in job.sequences]
    wanted = torch.stack([torch.nn.functional.normalize(s.mean(0), dim=0) for s in states]).numpy()
    assert np.abs(ours.answer(job)["embeddings"][0] - wanted).max() <= 1e-6


def test_nomic_v1_embeddings_match_transformers_with_the_prefix(tmp_path: Path, corpus: list[str]) -> None:
    config, weights = checkpoints.NOMIC_1, checkpoints.weights_for(checkpoints.NOMIC_1)
    sizes = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96}
    kind = transformers.NomicBertModel
    theirs = kind(kind.config_class(**sizes, vocab_size=200, type_vocab_size=2, layer_norm_eps=1e-12)).eval()
    theirs.load_state_dict(dict(renamed(weights)), strict=True)
    ours = Embedder(on_cpu(checkpoints.write(tmp_path, config, weights)))
    job = ours.read([[corpus]], (1, len(corpus)), '{"task": "search_query"}')
    ours.work([job])
    assert ours.max_tokens == 512 and all(text.startswith("search_query: ") for text in job.texts)
    with torch.inference_mode():
        states = [theirs(input_ids=torch.tensor(s)[None].long()).last_hidden_state[0] for s in job.sequences]
    wanted = torch.stack([torch.nn.functional.normalize(s.mean(0), dim=0) for s in states]).numpy()
    assert np.abs(ours.answer(job)["embeddings"][0] - wanted).max() <= 1e-6


def renamed(weights: checkpoints.Weights) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the weights of v1 under transformers' names."""
    names = {"encoder.": "", "emb_ln": "embeddings.LayerNorm", "attn.out_proj": "self_attn.o_proj", "fc11": "up_proj"}
    names |= {"fc12": "gate_proj", "fc2": "down_proj", "norm1": "post_attention_layernorm"}
    for name, value in weights.items():
        for old, new in (names | {"norm2": "post_mlp_layernorm"}).items():
            name = name.replace(old, new)
        if "Wqkv" in name:
            for part, letter in zip(np.split(value, 3), "qkv", strict=True):
                yield name.replace("attn.Wqkv", f"self_attn.{letter}_proj"), torch.from_numpy(part)
        else:
            yield name, torch.from_numpy(value)


def test_bert_cross_encoders_match_transformers_with_both_segments(tmp_path: Path, corpus: list[str]) -> None:
    theirs = saved(tmp_path, "BertForSequenceClassification", checkpoints.BERT | {"num_labels": 1})
    ours, tokenizer = Reranker(on_cpu(tmp_path)), checkpoints.wordpiece()
    query = "which river [SEP] flows in london"  # a mark inside a text does not end its segment
    job = ours.read([[[query]], [corpus]], (1, len(corpus)), None)
    ours.work([job])
    encodings = [tokenizer.encode(query, text) for text in corpus]
    with torch.inference_mode():
        scores = [
            theirs(input_ids=torch.tensor([pair.ids]), token_type_ids=torch.tensor([pair.type_ids])).logits.item()
            for pair in encodings
        ]
        one_segment = theirs(input_ids=torch.tensor([encodings[0].ids])).logits.item()
    assert [[i if i >= 0 else ~i for i in ids.tolist()] for ids in job.sequences] == [pair.ids for pair in encodings]
    assert np.abs(ours.answer(job)["scores"][0] - scores).max() <= 1e-5
    assert abs(one_segment - scores[0]) > 0.01, "the segments are of no account in this network"


@pytest.mark.parametrize("limit", [17, 24, 31])
def test_a_bert_pair_is_cut_as_the_tokenizers_own_longest_first(tmp_path: Path, limit: int) -> None:
    saved(tmp_path, "BertForSequenceClassification", checkpoints.BERT | {"num_labels": 1})
    ours, tokenizer = Reranker(on_cpu(tmp_path, max_tokens=limit)), checkpoints.wordpiece()
    tokenizer.enable_truncation(limit, strategy="longest_first")
    for lengths in [(2, 40), (40, 2), (30, 31), (31, 30), (12, 12), (3, 4), (limit, limit)]:
        query, passage = (" ".join((checkpoints.WORDS * 2)[:count]) for count in lengths)
        job = ours.read([[[query]], [[passage]]], (1, 1), None)
        ours.encode([job])
        assert [i if i >= 0 else ~i for i in job.sequences[0].tolist()] == tokenizer.encode(query, passage).ids


@pytest.mark.parametrize(("activation", "bias"), [("Tanh", True), ("Identity", False)])
def test_a_dense_step_projects_the_pooled_states(
    tmp_path: Path, corpus: list[str], activation: str, bias: bool
) -> None:
    theirs = saved(tmp_path, "BertModel", checkpoints.BERT)
    step = torch.nn.Linear(48, 20, bias=bias)
    write_dense(tmp_path, step, activation)
    ours = Embedder(on_cpu(tmp_path, dimensions=20))
    job = ours.read([[corpus]], (1, len(corpus)), None)
    ours.work([job])
    with torch.inference_mode():
        firsts = [theirs(input_ids=torch.tensor(s)[None].long()).last_hidden_state[0, 0] for s in job.sequences]
        projected = step(torch.stack(firsts))
        wanted = torch.nn.functional.normalize(projected.tanh() if activation == "Tanh" else projected).numpy()
    assert np.abs(ours.answer(job)["embeddings"][0] - wanted).max() <= 1e-6


def write_dense(directory: Path, step: torch.nn.Linear, activation: str) -> None:
    """Writes LaBSE's layout: first token, a projection, length 1."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense", "3_Normalize": "Normalize"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]
    (directory / "modules.json").write_text(json.dumps(modules))
    sizes = {"in_features": step.in_features, "out_features": step.out_features, "bias": step.bias is not None}
    configs = {
        "1_Pooling": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        "2_Dense": sizes | {"activation_function": f"torch.nn.modules.activation.{activation}"},
    }
    for name, config in configs.items():
        (directory / name).mkdir()
        (directory / name / "config.json").write_text(json.dumps(config))
    weights = {f"linear.{name}": value.detach().numpy() for name, value in step.named_parameters()}
    save_file(weights, directory / "2_Dense" / "model.safetensors")
