"""Requests of encoders' repositories beyond their network: computed by the server, or refused by the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.catalog.encoder_settings import ACTIVATIONS, POOLINGS, SETTINGS, STEPS
from deploy.io.hub import resolve
from deploy.io.local_weights import read_local
from deploy.models.config_json import kept
from deploy.models.sentence_steps import kept_steps
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal, Refusals
from deploy.spec import Embedder, Model, Reranker
from encoders import bert, deberta, gemma, modern, nomic, qwen, sentence
from tests.unit.hubs import repository, standing, weights
from tests.unit.published import ENTRIES, locked
from tests.unit.samples import AROUND, main, plan, sources
from tests.unit.test_pin_models import BERT

NAMES = ("Transformer", "Pooling", "Normalize")
POOLING, DENSE = "1_Pooling/config.json", "2_Dense/config.json"
MEAN = {"word_embedding_dimension": 384, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def modules(*steps: str, package: str = "sentence_transformers.models") -> list[dict[str, Any]]:
    """modules.json with these steps, each in its usual directory."""
    return [
        {"idx": number, "path": f"{number}_{step}" if number else "", "type": f"{package}.{step}"}
        for number, step in enumerate(steps)
    ]


def files(*steps: str, **contents: Any) -> dict[str, Any]:
    """Small files with these steps; `pooling`, `dense` and `texts` replace the content of one."""
    names = {"pooling": POOLING, "dense": DENSE, "texts": "sentence_bert_config.json"}
    return {"modules.json": modules(*(steps or NAMES)), POOLING: MEAN} | {
        names[key]: content for key, content in contents.items()
    }


def dense(activation: str, **others: str) -> dict[str, Any]:
    return {"in_features": 384, "out_features": 256, "bias": True, "activation_function": activation, **others}


WITH_DENSE = ("Transformer", "Pooling", "Dense", "Normalize")
SERVED: dict[str, dict[str, Any]] = {
    "mean": files(),
    "cls": files(pooling={"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}),
    "a word": files(pooling={"pooling_mode": "lasttoken"}),
    "tanh": files(*WITH_DENSE, dense=dense("torch.nn.modules.activation.Tanh")),
    "no activation": files(*WITH_DENSE, dense=dense("torch.nn.modules.linear.Identity")),
    "small letters of an uncased vocabulary": files(texts={"max_seq_length": 512, "do_lower_case": True}),
    "longest text beyond the positions": files(texts={"max_seq_length": 32_768, "do_lower_case": False}),
    "newer package": {**files(), "modules.json": modules(*NAMES, package="sentence_transformers.base.modules")},
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "max": (files(pooling={"pooling_mode_max_tokens": True}), "max_tokens pooling"),
    "weighted mean": (files(pooling={"pooling_mode_weightedmean_tokens": True}), "weightedmean_tokens pooling"),
    "root of the length": (files(pooling={"pooling_mode_mean_sqrt_len_tokens": True}), "mean_sqrt_len_tokens pooling"),
    "two modes": (files(pooling={**MEAN, "pooling_mode_cls_token": True}), "cls + mean pooling"),
    "two modes as a list": (files(pooling={"pooling_mode": ["cls", "max"]}), "cls + max pooling"),
    "no mode": (files(pooling={"pooling_mode_mean_tokens": False}), "no pooling"),
    "without the prompt": (files(pooling={**MEAN, "include_prompt": False}), "include_prompt=false"),
    "GELU": (files(*WITH_DENSE, dense=dense("torch.nn.modules.activation.GELU")), "GELU"),
    "of tokens": (
        files(*WITH_DENSE, dense=dense("x.Identity", module_input_name="token_embeddings")),
        "token_embeddings",
    ),
    "LSTM": (files("Transformer", "LSTM", "Pooling"), "LSTM in modules.json"),
    "layers": (files("Transformer", "WeightedLayerPooling", "Pooling"), "WeightedLayerPooling in modules.json"),
    "router": (files("Router", "Normalize"), "Router in modules.json"),
    "sparse": (files("MLMTransformer", "SpladePooling"), "MLMTransformer in modules.json"),
    "norm before the projection": (
        files("Transformer", "Pooling", "Normalize", "Dense"),
        "Transformer, Pooling, Normalize, Dense in modules.json",
    ),
}


def planned(name: str, config: dict[str, Any], model: Model) -> Plan:
    """The plan of a published repository with this additional part of its files."""
    known = locked(name)
    known = replace(known, config={**known.config, **config})
    return plan(*sources(**main(model)), around=replace(AROUND, locked={f"x/{name}": known}))


def refused(name: str, config: dict[str, Any], model: Model) -> Refusal:
    with pytest.raises((Refusal, Refusals)) as caught:
        planned(name, config, model)
    problems = caught.value.problems if isinstance(caught.value, Refusals) else (caught.value,)
    assert len(problems) == 1
    return problems[0]


@pytest.mark.parametrize("contents", SERVED.values(), ids=SERVED)
def test_steps_that_the_server_computes_are_planned(contents: dict[str, Any]) -> None:
    assert planned("bge-small-en-v1.5", kept_steps(contents), Embedder("x/bge-small-en-v1.5")).slices


@pytest.mark.parametrize(("contents", "seen"), REFUSED.values(), ids=REFUSED)
def test_steps_that_the_server_would_refuse_are_refused_by_the_plan(contents: dict[str, Any], seen: str) -> None:
    problem = refused("bge-small-en-v1.5", kept_steps(contents), Embedder("x/bge-small-en-v1.5"))
    assert (problem.kind, problem.facts["seen"]) == ("step-not-computed", seen)


def test_small_letters_are_refused_for_a_vocabulary_with_capitals() -> None:
    problem = refused("bge-m3", kept_steps(files(texts={"do_lower_case": True})), Embedder("x/bge-m3"))
    assert problem.facts["seen"] == "do_lower_case=true in sentence_bert_config.json"


def test_vectors_without_a_step_of_their_length_are_noted() -> None:
    model = Embedder("x/bge-small-en-v1.5")
    noted = planned("bge-small-en-v1.5", kept_steps(files("Transformer", "Pooling")), model).warnings
    assert any("normalize=false" in note for note in noted)
    assert not any("normalize" in note for note in planned("bge-small-en-v1.5", kept_steps(files()), model).warnings)


@pytest.mark.parametrize(
    ("name", "model", "setting", "seen"),
    [
        ("bge-small-en-v1.5", Embedder, {"hidden_act": "relu"}, "hidden_act='relu'"),
        ("bge-small-en-v1.5", Embedder, {"position_embedding_type": "relative_key"}, "'relative_key'"),
        ("bge-reranker-v2-m3", Reranker, {"position_embedding_type": "relative_key"}, "'relative_key'"),
        ("gte-modernbert-base", Embedder, {"hidden_activation": "silu"}, "hidden_activation='silu'"),
        ("gte-modernbert-base", Embedder, {"rope_scaling": {"rope_type": "yarn", "factor": 4}}, "of type yarn"),
        ("qwen3-embedding-0.6b", Embedder, {"use_sliding_window": True}, "use_sliding_window=True"),
        ("qwen3-reranker-0.6b", Reranker, {"rope_parameters": {"rope_type": "linear", "factor": 2}}, "type linear"),
        ("embeddinggemma-300m", Embedder, {"use_bidirectional_attention": None}, "use_bidirectional_attention=None"),
        ("mxbai-rerank-large-v1", Reranker, {"share_att_key": False}, "share_att_key=False"),
    ],
)
def test_a_setting_that_the_network_would_ignore_is_refused(
    name: str, model: type[Model], setting: dict[str, Any], seen: str
) -> None:
    """The last embedder is a causal Gemma 3, as Harrier is (2026-03-30): earlier it was planned, and never served."""
    config = kept({**ENTRIES[name]["config"], **setting})
    problem = refused(name, config, model(f"x/{name}", dtype="bfloat16"))
    assert problem.kind == "step-not-computed" and seen in problem.facts["seen"]


def test_an_endless_setting_is_shortened() -> None:
    config = kept({**ENTRIES["bge-small-en-v1.5"]["config"], "hidden_act": [{"gelu": 1}] * 5000})
    assert len(refused("bge-small-en-v1.5", config, Embedder("x/bge-small-en-v1.5")).facts["seen"]) < 200


def test_a_causal_gemma_that_says_nothing_of_its_attention_is_refused() -> None:
    config = dict(ENTRIES["embeddinggemma-300m"]["config"])
    del config["use_bidirectional_attention"]
    problem = refused("embeddinggemma-300m", kept(config), Embedder("x/embeddinggemma-300m", dtype="bfloat16"))
    assert "use_bidirectional_attention=False" in problem.facts["seen"]


def test_the_settings_are_those_that_the_encoders_require() -> None:
    """Every value that a network requires is judged by the plan, and no other value."""
    required = {
        "BertModel": bert.FIXED,
        "NomicBertModel": nomic.FIXED,
        "ModernBertModel": modern.FIXED,
        "ModernBertForSequenceClassification": modern.FIXED | modern.HEAD,
        "Qwen3Model": qwen.FIXED,
        "Gemma3TextModel": gemma.FIXED,
        "DebertaV2ForSequenceClassification": {k: v for k, v in deberta.FIXED.items() if k != "pos_att_type"},
    }
    assert {name: SETTINGS[name] for name in required} == required
    assert (STEPS, [list(mode) for mode in POOLINGS]) == (sentence.STEPS, list(sentence.POOLINGS))
    assert set(ACTIVATIONS) == sentence.ACTIVATIONS.keys()


def test_hub_and_directory_show_the_same_steps(tmp_path: Path) -> None:
    folder = tmp_path / "models/embeds"
    folder.mkdir(parents=True)
    contents = files(*WITH_DENSE, dense=dense("x.GELU"), texts={"do_lower_case": True})
    texts = {name: json.dumps(content).encode() for name, content in contents.items()}
    repository(folder, BERT, {**texts, "tokenizer.json": b"{}", "model.safetensors": weights(a=("F32", [1, 9]))})
    with standing(tmp_path / "models", tmp_path / "state") as hub:
        config = resolve("rehearsal/embeds", hub.access()).files.config
    steps = {"steps": list(WITH_DENSE), "pooling": ["mean"], "activations": ["GELU"], "lowers": True}
    assert config["sentence_steps"] == steps and read_local(folder).config == config
