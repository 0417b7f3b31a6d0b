"""XLM-RoBERTa and BERT against transformers' own classes, weights written by transformers itself.

transformers is a dependency of this test only. Its class for NomicBert is never asked: it builds another network.
"""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from encoders.embedding import Embedder
from encoders.reranking import Reranker
from tests.encoders import checkpoints
from tests.encoders.checkpoints import on_cpu

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own deprecations at import are not ours to fix
    transformers = pytest.importorskip("transformers", reason="pip install transformers, in the test group of the lock")


def saved(directory: Path, kind: str, config: dict) -> torch.nn.Module:
    """A random model of transformers' class `kind`, saved in `directory` beside a tokenizer."""
    torch.manual_seed(5)
    settings = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "label2id")}
    model = getattr(transformers, kind)(getattr(transformers, kind).config_class(**settings, initializer_range=0.15))
    model.eval().save_pretrained(directory)
    (checkpoints.unigram() if "XLM" in kind else checkpoints.wordpiece()).save(str(directory / "tokenizer.json"))
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
    [("BertModel", checkpoints.BERT), ("XLMRobertaModel", checkpoints.XLMR | {"architectures": ["XLMRobertaModel"]})],
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
