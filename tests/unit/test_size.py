"""`enginehouse size`: cards by memory and by a bench, compared with hand calculations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deploy.__main__ import main as enginehouse
from deploy.cost.measured import Load, loads_of
from deploy.cost.size import Demand, Size, sizes
from deploy.planning.fit import fit, model_named
from tests.unit.samples import AROUND

ENCODERS = Path(__file__).parents[2] / "benchmarks/results/h100-encoders.json"
MODELS = ("gpt-oss-20b", "bge-reranker-large", "nomic-embed-text-v2-moe")
ASKED = Demand(users=4000, prompt=2000, answer=400, first_token_seconds=1.0)
CHAT = Load(
    name="chat",
    model="gpt-oss-20b",
    kind="llm",
    card="h100-80",
    gpus=1,
    clients=60,
    prompt_length=2200,
    answer_length=500,
    first_token_p95_seconds=0.8,
    source="chat.json",
)
"""A measured load: 60 clients of one card get the first token within 0.8 s."""


def size(demand: Demand = ASKED, loads: Any = (), names: tuple[str, ...] = MODELS, card: str = "h100-80") -> Size:
    """The size of one card."""
    return sizes([card], tuple(model_named(name) for name in names), "26.07", AROUND, demand, loads)[0]


def test_cards_by_memory_agree_with_fit() -> None:
    """The number of cards is 4,000 sequences of 2,400 tokens, divided by the sequences that one card's cache holds,
    rounded up."""
    tokens = fit("h100-80", MODELS, "26.07", AROUND).cache_tokens
    held = size().sequences
    # 54,229 MiB for the cache (README), 48 KiB a token, in blocks: 2,400 tokens a sequence
    assert (tokens, tokens // 2400, held) == (1_156_864, 482, 482)
    assert (size().by_memory, size().cards, size().is_measured) == (9, 9, False)  # 4,000 / 482 = 8.3


def test_encoders_agree_with_a_hand_calculation() -> None:
    """A real H100's figures: 4,000 users x 100 passages every 30 s, and a text each."""
    demand = replace(ASKED, every_seconds=30.0, passages=100, texts=1)
    loads = loads_of(json.loads(ENCODERS.read_text("utf-8")), "encoders")
    sized = size(demand, loads, ("bge-reranker-large", "nomic-embed-text-v2-moe"))
    # 13,333.3 / 6,740.7618 passages a second, and 133.33 / 14,812.9 texts
    assert [need.replicas for need in sized.needs] == pytest.approx([1.97802, 0.0090012], rel=1e-3)
    assert (sized.cards, sized.is_measured) == (2, True)


def test_models_of_one_card_add_up() -> None:
    """480 simultaneous users at 60 a card are 8 cards; with the encoders' 1.987 they are 10."""
    demand = replace(ASKED, at_once_percent=12, every_seconds=30.0, passages=100, texts=1)
    loads = (*loads_of(json.loads(ENCODERS.read_text("utf-8")), "encoders"), CHAT)
    sized = size(demand, loads)
    assert (sized.by_memory, sized.cards, sized.is_measured) == (1, 10, True)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"card": "h200-141"}, "no bench covers prompts of 2,000 and answers of 400 tokens on this card"),
        ({"prompt_length": 1999.0}, "no bench covers prompts of 2,000 and answers of 400 tokens on this card"),
        ({"answer_length": 801.0}, "no bench covers prompts of 2,000 and answers of 400 tokens on this card"),
        ({"replica_gpus": 16}, "no bench covers prompts of 2,000 and answers of 400 tokens on this card"),
        ({"alone": False}, "no bench covers prompts of 2,000 and answers of 400 tokens on this card"),
        ({"first_token_p95_seconds": 1.1}, "no load kept to 1 s: 1.1 s with 60 clients at best"),
    ],
)
def test_a_load_that_no_bench_covers_is_not_measured(changes: dict[str, Any], why: str) -> None:
    """Cases: another card, shorter or much longer requests, a shared card, a late first token."""
    (need,) = size(loads=[replace(CHAT, **changes)], names=("gpt-oss-20b",)).needs
    assert (need.replicas, need.why) == (None, why)


def test_the_most_clients_within_the_first_token_count() -> None:
    """The middle one of three loads wins."""
    loads = [replace(CHAT, clients=clients, first_token_p95_seconds=late) for clients, late in ((30, 0.4), (90, 1.4))]
    (need,) = size(replace(ASKED, users=120), [*loads, CHAT], ("gpt-oss-20b",)).needs
    assert need.replicas == 2.0


def test_a_model_is_split_where_that_takes_fewer_cards() -> None:
    """70B in 16 bits: two cards hold it and 17 sequences (24 replicas), four hold 200 and more."""
    sized = size(replace(ASKED, users=400), names=("llama-3.1-70b-instruct",))
    assert (sized.gpus, sized.cards) == (4, 8)


def test_a_card_that_does_not_fit_says_why() -> None:
    """The reason is the plan's own sentence."""
    sized = size(card="l40s-48", names=("gpt-oss-20b",))
    assert (sized.cards, sized.refusal) == (0, "gpt-oss-20b: mxfp4 weights need SM 90; the GPU has SM 89")


def test_size_prints_its_assumptions() -> None:
    """The assumptions are printed as typed, with times in milliseconds too."""
    words = ["size", "--users", "400", "--prompt", "2000", "--answer", "400", "--first-token", "800ms", "--gpu", "h100"]
    output = CliRunner().invoke(enginehouse, [*words, "gpt-oss-20b"]).output
    assert "at least 1" in output and "not measured: gpt-oss-20b" in output
    assert "400 users, 400 of them with a question under way" in output and "95 of 100 within 0.8 s" in output


def test_passages_without_a_rate_are_no_load() -> None:
    """Passages without a rate are refused, not ignored."""
    words = ["size", "--users", "4", "--prompt", "20", "--answer", "4", "--passages", "9", "gpt-oss-20b"]
    assert CliRunner().invoke(enginehouse, words).exit_code == 2
