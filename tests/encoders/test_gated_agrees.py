"""ModernBERT, Qwen3 and Gemma 3 against transformers' own classes in float32, weights as transformers writes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, processors

from encoders.embedding import Embedder
from encoders.errors import CheckpointError
from encoders.qwen import TASK, TEMPLATE
from encoders.reranking import Reranker
from tests.encoders import checkpoints
from tests.encoders.checkpoints import on_cpu
from tests.encoders.test_transformers_agrees import transformers


def saved(directory: Path, kind: str, config: dict[str, Any]) -> torch.nn.Module:
    """Saves a random model of transformers' class `kind` and a tokenizer in `directory`; its norms differ."""
    torch.manual_seed(5)
    made = getattr(transformers, kind)
    settings = {key: value for key, value in config.items() if key != "model_type"}
    model = made(made.config_class(**settings, initializer_range=0.15, attn_implementation="eager")).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.add_(torch.randn_like(weight) * 0.2)
    model.save_pretrained(directory)
    checkpoints.wordpiece().save(str(directory / "tokenizer.json"))
    return model


QWEN: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 80,
    "max_position_embeddings": 512,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "vocab_size": 200,
    "pad_token_id": 0,
}
GEMMA: dict[str, Any] = QWEN | {
    "num_key_value_heads": 1,
    "num_hidden_layers": 4,
    "query_pre_attn_scalar": 16,
    "sliding_window": 8,
    "sliding_window_pattern": 3,
    "use_bidirectional_attention": True,
    "rope_parameters": None,
}


def decoder_tokenizer(single: str) -> Tokenizer:
    """Returns a small vocabulary with "yes" and "no"; `single` is the template of a text."""
    tokenizer = checkpoints.wordpiece()
    tokenizer.add_tokens(["yes", "no"])
    special = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    return tokenizer


def pooled_by_last_token(directory: Path) -> None:
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_lasttoken": True}))


def embedded(ours: Embedder, corpus: list[str], parameters: str | None = None) -> tuple[Any, np.ndarray]:
    job = ours.read([[corpus]], (1, len(corpus)), parameters)
    ours.work([job])
    assert job.error is None
    return job, ours.answer(job)["embeddings"][0]


def test_modernbert_embeddings_match_transformers(tmp_path: Path, corpus: list[str]) -> None:
    theirs = saved(tmp_path, "ModernBertModel", checkpoints.MODERN)
    job, got = embedded(Embedder(on_cpu(tmp_path)), corpus)
    with torch.inference_mode():
        states = [theirs(input_ids=torch.tensor(s)[None].long()).last_hidden_state[0] for s in job.sequences]
    wanted = torch.stack([torch.nn.functional.normalize(s.mean(0), dim=0) for s in states]).numpy()
    assert np.abs(got - wanted).max() <= 2e-6
    assert max(len(s) for s in job.sequences) > 8 * checkpoints.MODERN["local_attention"]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_modernbert_scores_match_transformers(tmp_path: Path, corpus: list[str], pooling: str) -> None:
    config = checkpoints.MODERN | {"num_labels": 1, "classifier_pooling": pooling}
    theirs = saved(tmp_path, "ModernBertForSequenceClassification", config)
    ours, tokenizer = Reranker(on_cpu(tmp_path)), checkpoints.wordpiece()
    job = ours.read([[["which river flows in london"]], [corpus]], (1, len(corpus)), None)
    ours.work([job])
    ids = [tokenizer.encode("which river flows in london", text).ids for text in corpus]
    assert [s.tolist() for s in job.sequences] == ids
    with torch.inference_mode():
        wanted = [theirs(input_ids=torch.tensor([pair])).logits.item() for pair in ids]
    assert np.abs(ours.answer(job)["scores"][0] - wanted).max() <= 2e-5
    assert np.ptp(wanted) > 0.1


@pytest.mark.parametrize("legacy", [True, False])
def test_modernbert_configs_of_both_forms_are_one_network(tmp_path: Path, corpus: list[str], legacy: bool) -> None:
    """Files before transformers 5 have two bases and the interval between global layers; later files list the
    layers."""
    saved(tmp_path, "ModernBertModel", checkpoints.MODERN)
    config = json.loads((tmp_path / "config.json").read_text())
    assert "layer_types" in config and "rope_parameters" in config
    wanted = embedded(Embedder(on_cpu(tmp_path)), corpus)[1]
    if legacy:
        del config["layer_types"], config["rope_parameters"]
        config |= {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    (tmp_path / "config.json").write_text(json.dumps(config))
    np.testing.assert_array_equal(embedded(Embedder(on_cpu(tmp_path)), corpus)[1], wanted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm_bias": True}, "norm_bias is True; only False is served"),
        ({"hidden_activation": "relu"}, "hidden_activation is 'relu'; only 'gelu' is served"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "positions are scaled"),
    ],
)
def test_a_modernbert_that_is_not_computed_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    saved(tmp_path, "ModernBertModel", checkpoints.MODERN)
    config = json.loads((tmp_path / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=message):
        Embedder(on_cpu(tmp_path))


@pytest.mark.parametrize("kind", ["Qwen3Model", "Qwen3ForCausalLM"])
def test_qwen3_embeddings_are_the_last_tokens_state_of_transformers(
    tmp_path: Path, corpus: list[str], kind: str
) -> None:
    """Published embedders name Qwen3ForCausalLM and hold the tensors of its trunk alone, without a prefix."""
    theirs = saved(tmp_path, kind, QWEN | {"tie_word_embeddings": True})
    decoder_tokenizer("$A [SEP]").save(str(tmp_path / "tokenizer.json"))
    pooled_by_last_token(tmp_path)
    trunk = theirs if kind == "Qwen3Model" else theirs.model
    config = json.loads((tmp_path / "config.json").read_text()) | {"architectures": ["Qwen3ForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    job, got = embedded(Embedder(on_cpu(tmp_path)), corpus, '{"task": "search_query"}')
    assert all(s[-1] == 3 and s[0] != 2 for s in job.sequences)
    assert job.texts[0].startswith("Instruct: Given a web search query")
    with torch.inference_mode():
        states = [trunk(input_ids=torch.tensor(s)[None].long()).last_hidden_state[0, -1] for s in job.sequences]
    wanted = torch.nn.functional.normalize(torch.stack(states), dim=1).numpy()
    assert np.abs(got - wanted).max() <= 2e-6


@pytest.mark.parametrize("tied", [True, False])
def test_qwen3_scores_are_yes_without_no_of_the_word_that_follows(
    tmp_path: Path, corpus: list[str], tied: bool
) -> None:
    theirs = saved(tmp_path, "Qwen3ForCausalLM", QWEN | {"tie_word_embeddings": tied})
    tokenizer = decoder_tokenizer("$A")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ours = Reranker(on_cpu(tmp_path))
    query = "which {passage} flows in london"  # a placeholder in a client's text is not filled in
    job = ours.read([[[query]], [corpus]], (1, len(corpus)), None)
    ours.work([job])
    text = f"{TEMPLATE.before}<Instruct>: {TASK}\n<Query>: {query}\n<Document>: {corpus[0]}{TEMPLATE.after}"
    assert tokenizer.encode(text).ids == job.sequences[0].tolist()
    yes, no = tokenizer.token_to_id("yes"), tokenizer.token_to_id("no")
    with torch.inference_mode():
        logits = [theirs(input_ids=torch.tensor(s)[None].long()).logits[0, -1] for s in job.sequences]
    wanted = np.array([(row[yes] - row[no]).item() for row in logits])
    assert np.abs(ours.answer(job)["scores"][0] - wanted).max() <= 2e-5
    assert np.ptp(wanted) > 0.1


def test_a_pair_in_a_template_loses_the_passages_end_or_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, "Qwen3ForCausalLM", QWEN | {"tie_word_embeddings": True})
    decoder_tokenizer("$A").save(str(tmp_path / "tokenizer.json"))
    ours = Reranker(on_cpu(tmp_path, max_tokens=160))
    assert ours.template
    for parameters in (None, '{"truncate": false}'):
        job = ours.read([[["river"]], [["water", "water " * 200]]], (1, 2), parameters)
        ours.encode([job])
        if parameters:
            assert "passages[0][1] has" in str(job.error)
        else:
            assert len(job.sequences[1]) == 160 and len(job.sequences[0]) < 160
            around = ours.template.whole(np.zeros(0, np.int32), 160)
            assert job.sequences[1][-5:].tolist() == around[-5:].tolist() == job.sequences[0][-5:].tolist()
    with pytest.raises(CheckpointError, match="the words around a pair alone are"):
        Reranker(on_cpu(tmp_path, max_tokens=40))


def test_embeddinggemma_vectors_match_transformers(tmp_path: Path, corpus: list[str]) -> None:
    theirs = saved(tmp_path, "Gemma3TextModel", GEMMA)
    decoder_tokenizer("[CLS] $A [SEP]").save(str(tmp_path / "tokenizer.json"))
    job, got = embedded(Embedder(on_cpu(tmp_path)), corpus)
    assert all(text.startswith("title: none | text: ") for text in job.texts)
    with torch.inference_mode():
        states = [theirs(input_ids=torch.tensor(s)[None].long()).last_hidden_state[0] for s in job.sequences]
    wanted = torch.stack([torch.nn.functional.normalize(s.mean(0), dim=0) for s in states]).numpy()
    assert np.abs(got - wanted).max() <= 2e-6
    assert max(len(s) for s in job.sequences) > 8 * GEMMA["sliding_window"]


def test_a_gemma_that_reads_from_left_to_right_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, "Gemma3TextModel", GEMMA | {"use_bidirectional_attention": False})
    with pytest.raises(CheckpointError, match="use_bidirectional_attention is False; only True is served"):
        Embedder(on_cpu(tmp_path))


def test_states_that_float16_does_not_hold_are_refused_in_it(tmp_path: Path) -> None:
    saved(tmp_path, "Gemma3TextModel", GEMMA)
    decoder_tokenizer("[CLS] $A [SEP]").save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CheckpointError, match="dtype is `fp16`, which does not hold this network's states; say `bf16`"):
        Embedder(on_cpu(tmp_path, dtype="fp16"))
