"""DeBERTa-v3 against transformers' own class in float32, weights and tokenizer in the published layout."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers.models.deberta_v2 import modeling_deberta_v2

from encoders import deberta, families
from encoders.errors import CheckpointError
from encoders.reranking import Reranker
from tests.encoders import checkpoints
from tests.encoders.checkpoints import on_cpu
from tests.encoders.test_gated_agrees import saved

CONFIG: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "max_position_embeddings": 128,
    "position_buckets": 16,
    "max_relative_positions": -1,
    "relative_attention": True,
    "position_biased_input": False,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "pos_att_type": ["p2c", "c2p"],
    "pooler_hidden_act": "gelu",
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "vocab_size": 200,
    "pad_token_id": 0,
    "num_labels": 1,
}
"""The keys of mxbai-rerank-base-v1, which is a DeBERTa-v3; its buckets are 256."""


def unigram() -> Tokenizer:
    """Returns a tokenizer with DeBERTa-v3's layout: pieces of sentencepiece, and BERT's marks."""
    pieces = [f"▁{word}" for word in checkpoints.WORDS] + ["▁"] + checkpoints.LETTERS
    vocabulary = [(mark, 0.0) for mark in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")]
    vocabulary += [(piece, -float(rank) / 10 - (len(piece) < 3) * 9) for rank, piece in enumerate(pieces)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Replace("\n", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.add_special_tokens(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


def made(directory: Path, **changes: Any) -> torch.nn.Module:
    """Saves a random model and its tokenizer in `directory`."""
    model = saved(directory, "DebertaV2ForSequenceClassification", CONFIG | changes)
    unigram().save(str(directory / "tokenizer.json"))
    return model


def scored(directory: Path, query: str, corpus: list[str]) -> tuple[Any, np.ndarray]:
    """The job and the raw scores of one query."""
    ours = Reranker(on_cpu(directory))
    job = ours.read([[[query]], [corpus]], (1, len(corpus)), '{"raw_scores": true}')
    ours.work([job])
    assert job.error is None
    return job, ours.answer(job)["scores"][0]


@pytest.mark.parametrize("changes", [{}, {"position_buckets": -1}, {"max_relative_positions": 64}], ids=str)
def test_scores_match_transformers(tmp_path: Path, corpus: list[str], changes: dict[str, Any]) -> None:
    theirs = made(tmp_path, **changes)
    query = "which river flows in london"
    job, got = scored(tmp_path, query, corpus)
    ids = [unigram().encode(query, text).ids for text in corpus]
    assert [sequence.tolist() for sequence in job.sequences] == ids
    with torch.inference_mode():
        wanted = np.array([theirs(input_ids=torch.tensor([pair])).logits.item() for pair in ids])
    assert np.abs(got - wanted).max() <= 2e-5
    assert np.ptp(wanted) > 0.1 and max(map(len, ids)) > 3 * CONFIG["position_buckets"]


def test_scores_do_not_depend_on_the_texts_beside(tmp_path: Path, corpus: list[str]) -> None:
    made(tmp_path)
    together = scored(tmp_path, "a river", corpus)[1]
    alone = [scored(tmp_path, "a river", [text])[1][0] for text in corpus[:4]]
    assert np.abs(together[:4] - alone).max() <= 1e-5


def test_few_scores_at_once_give_the_same(tmp_path: Path, corpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    wanted = scored(tmp_path, "a river", corpus)[1]
    monkeypatch.setattr(deberta, "MOST_SCORES", 1)
    assert np.abs(scored(tmp_path, "a river", corpus)[1] - wanted).max() <= 1e-5


@pytest.mark.parametrize(("buckets", "furthest"), [(256, 512), (16, 128), (32, 512)])
def test_buckets_of_the_published_widths_are_transformers_own(buckets: int, furthest: int) -> None:
    shape = deberta.Shape(10, 8, 1, 1, 8, 512, 1e-7, buckets, furthest)
    states = torch.zeros(1, 512, 8)
    theirs = modeling_deberta_v2.build_relative_position(states, states, buckets, furthest)[0]
    assert torch.equal(deberta.buckets(shape, 512), (theirs + buckets).clamp(0, 2 * buckets - 1))


def test_the_published_shape_has_the_published_number_of_elements() -> None:
    """The safetensors header of mxbai-rerank-large-v1 counts 435,062,785 elements."""
    large = deberta.Shape(128_100, 1024, 24, 16, 4096, 512, 1e-7, 256, -1)
    assert sum(int(np.prod(shape)) for shape in deberta.shapes(large).values()) == 435_062_785


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"conv_kernel_size": 3}, "conv_kernel_size is 3"),
        ({"share_att_key": False}, "share_att_key is False"),
        ({"pos_att_type": ["c2p"]}, "pos_att_type is 'c2p'"),
        ({"position_biased_input": True}, "position_biased_input is True"),
        ({"embedding_size": 20}, "embedding_size is 20"),
    ],
    ids=str,
)
def test_a_setting_that_is_not_computed_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    made(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(CheckpointError, match=words):
        families.choose(tmp_path, families.RERANKERS)


def test_a_head_of_three_labels_is_refused(tmp_path: Path) -> None:
    """Natural-language inference gives three numbers for a pair, and none of them is a relevance."""
    made(tmp_path, num_labels=3)
    with pytest.raises(CheckpointError, match="classifier"):
        Reranker(on_cpu(tmp_path))
