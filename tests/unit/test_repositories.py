"""Repositories that may have a checkpoint of these numbers, and the plan's note if that is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.catalog import CHECKPOINTS
from deploy.spec import LLM, Weights
from deploy.spec.surroundings import LocalWeights, Surroundings
from deploy.validation.repositories import held_by
from tests.unit.samples import AROUND, GPT_OSS, LLAMA, OWN, main, pinned, plan


@pytest.mark.parametrize(
    ("repository", "names"),
    [
        ("openai/gpt-oss-20b", ["gpt-oss-20b"]),
        ("mirror/gpt_oss_20B", ["gpt-oss-20b"]),
        ("unsloth/gpt-oss-120b-BF16", ["gpt-oss-120b"]),
        ("nvidia/Llama-3.3-70B-Instruct-FP8", ["llama-3.3-70b-instruct-fp8"]),
        ("mirror/Meta-Llama-3.1-8B-Instruct", ["llama-3.1-8b-instruct"]),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", ["mixtral-8x7b-instruct"]),
        ("gpt-oss-20b/support-assistant", []),
        ("acme/gpt-oss-200b", []),
    ],
)
def test_a_repositorys_name_and_content_agree(repository: str, names: list[str]) -> None:
    """Whole words of the last part count, however they are joined; the longest name wins."""
    assert [row.name for row in held_by(repository)] == names


@pytest.mark.parametrize("repository", ["mirror/gpt-oss-20b", "mirror/GPT_OSS_20b"])
def test_a_mirror_that_keeps_the_name_is_planned_without_a_note(repository: str) -> None:
    """The owner does not matter."""
    assert not _about_memory(replace(GPT_OSS, weights=pinned("gpt-oss-20b", repository=repository)))


@pytest.mark.parametrize("repository", ["example/mine", "unsloth/gpt-oss-20b-BF16"])
def test_another_name_is_planned_with_a_note(repository: str) -> None:
    """A fine-tune has the shape of its base, a suffix may mean another precision; only the repository's owner knows."""
    (note,) = _about_memory(replace(GPT_OSS, weights=pinned("gpt-oss-20b", repository=repository)))
    assert note == (
        f"gpt-oss-20b: nothing here knows {repository}; its memory is counted as gpt-oss-20b, which is right only for "
        "a copy or a fine-tune of it in the same precision"
    )


def test_declared_numbers_are_accepted_for_an_unknown_repository() -> None:
    """The operator read the numbers in the repository's config.json."""
    assert not _about_memory(replace(LLAMA, checkpoint=CHECKPOINTS["llama-3.1-8b-instruct"].shape, weights=OWN))


def test_local_files_of_another_size_get_a_note() -> None:
    """The cache is the catalog's, the weights are the directory's."""
    local = LocalWeights(revision="local-1", stored_bytes=65_248_815_744, parameters=1, files=("a.safetensors",))
    around = replace(AROUND, local={"weights/big": local})
    model = replace(GPT_OSS, weights=Weights.local("weights/big"))
    assert _about_memory(model, around) == [
        "gpt-oss-20b: weights/big holds 65.2 GB and gpt-oss-20b is published with 13.8; its cache is counted as "
        "gpt-oss-20b's"
    ]


def _about_memory(model: LLM, around: Surroundings = AROUND) -> list[str]:
    return [note for note in plan(around=around, **main(model)).warnings if "counted as" in note]
