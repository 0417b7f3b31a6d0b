"""Prompts that a repository publishes are the prefixes of its tasks: locked by `pin`, then planned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.io.hub import resolve
from deploy.io.local_weights import read_local
from deploy.models.config_json import kept
from deploy.models.prompts import default_task_of, kept_prompts, other_prompts, prefixes_of
from deploy.planning.plan import Plan
from deploy.spec import Embedder
from tests.unit.hubs import repository, standing, weights
from tests.unit.published import ENTRIES, locked
from tests.unit.samples import AROUND, main, plan, sources
from tests.unit.test_pin_models import BERT

GEMMA = {
    "query": "task: search result | query: ",
    "document": "title: none | text: ",
    "Clustering": "task: clustering | query: ",
    "Classification": "task: classification | query: ",
    "STS": "task: sentence similarity | query: ",
}
"""EmbeddingGemma's own file, shortened."""


def planned(name: str, published: dict[str, Any], **changes: Any) -> Plan:
    """The plan of an embedder whose repository has these prompts beside its files."""
    files = locked(name)
    files = replace(files, config={**files.config, **kept_prompts(published)})
    model = Embedder(f"x/{name}", dtype="bfloat16", **changes)
    return plan(*sources(**main(model)), around=replace(AROUND, locked={f"x/{name}": files}))


def settings(name: str, published: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return dict(planned(name, published, **changes).slices[0].servers[0].models[0].settings)


def test_pin_locks_the_prompts_beside_the_numbers(tmp_path: Path) -> None:
    """Hub and directory give the same prompts; the lock keeps no other part of the file."""
    folder = tmp_path / "models/embeds"
    texts = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": None, "similarity": "cosine"}
    extra = {"config_sentence_transformers.json": json.dumps(texts).encode(), "tokenizer.json": b"{}"}
    folder.mkdir(parents=True)
    repository(folder, BERT, {**extra, "model.safetensors": weights(a=("F32", [1, 22_713_216]))})
    with standing(tmp_path / "models", tmp_path / "state") as hub:
        config = resolve("rehearsal/embeds", hub.access()).files.config
    assert config == {**kept(BERT), "sentence_transformers": {"prompts": {"document": "", "query": "query: "}}}
    assert read_local(folder).config == config


def test_the_plan_gives_the_server_the_published_prefixes() -> None:
    of_server = settings("snowflake-arctic-l-v2", {"prompts": {"query": "query: "}})
    assert json.loads(of_server["prefixes"]) == {"search_query": "query: ", "search_document": ""}
    assert of_server["default_task"] == ""


def test_declared_prefixes_are_stronger() -> None:
    declared = {"search_query": "ask: ", "search_document": "text: "}
    assert json.loads(settings("bge-small-en-v1.5", {"prompts": GEMMA}, prefixes=declared)["prefixes"]) == declared


def test_the_prompt_that_a_repository_takes_by_default_is_the_default_task() -> None:
    published = {"prompts": {"query": "q: ", "passage": "p: "}, "default_prompt_name": "query"}
    assert settings("bge-small-en-v1.5", published)["default_task"] == "search_query"
    assert settings("bge-small-en-v1.5", published, default_task="search_document")["default_task"] == "search_document"


def test_a_family_keeps_tasks_that_the_file_lacks() -> None:
    """nomic's file names two prompts, and its network was trained with four."""
    published = {"prompts": {"query": "search_query: ", "passage": "search_document: "}}
    assert "prefixes" not in settings("nomic-embed-text-v1.5", published)
    assert (
        json.loads(settings("embeddinggemma-300m", {"prompts": GEMMA})["prefixes"])["clustering"] == GEMMA["Clustering"]
    )


def test_prompts_without_a_task_are_named() -> None:
    (sentence,) = [text for text in planned("embeddinggemma-300m", {"prompts": GEMMA}).warnings if "STS" in text]
    assert "prefixes={…}" in sentence
    assert not [text for text in planned("embeddinggemma-300m", {}).warnings if "prompts" in text]


@pytest.mark.parametrize(
    ("prompts", "document"),
    [
        ({"query": "q", "document": "", "passage": "p"}, ""),
        ({"query": "q", "passage": "p", "corpus": "c"}, "p"),
        ({"query": "q", "corpus": "c"}, "c"),
        ({"query": "q"}, ""),
    ],
)
def test_documents_get_the_prompt_that_sentence_transformers_takes(prompts: dict[str, str], document: str) -> None:
    """The first present name of three is used, even with an empty prompt (`encode_document` of 6.2.0)."""
    assert prefixes_of(kept_prompts({"prompts": prompts})) == {"search_query": "q", "search_document": document}


ODD: tuple[Any, ...] = (
    *(None, [], "x", 5),
    *({"prompts": odd} for odd in ([], {"query": 5}, {5: "x"}, {"query": ""}, {"query": "x" * 5000})),
    *({"prompts": odd} for odd in ({"query": "\x1b]0;x"}, {str(number): "x" for number in range(99)})),
)


@pytest.mark.parametrize("published", ODD, ids=range(len(ODD)))
def test_a_file_of_another_form_gives_no_prefix(published: Any) -> None:
    """The same applies to a lock that was edited to this form."""
    for config in (kept_prompts(published), {"sentence_transformers": published}):
        assert (prefixes_of(config), default_task_of(config), other_prompts(config)) == ({}, "", [])


def test_repositories_without_the_file_are_planned_as_before() -> None:
    assert all("sentence_transformers" not in locked(name).config for name in ENTRIES if name != "lora-only")
