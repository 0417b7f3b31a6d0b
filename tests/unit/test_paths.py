"""The choice of a model's backend, with the reason."""

from __future__ import annotations

import pytest

from deploy.catalog import ARCHITECTURES
from deploy.models.paths import choose_path


@pytest.mark.parametrize(
    ("wish", "architecture", "trtllm", "path"),
    [
        ("auto", "GptOssForCausalLM", "1.2.1", "pytorch"),
        ("pytorch", "GptOssForCausalLM", "1.1.0", "pytorch"),
        ("auto", "LlamaForCausalLM", "1.0.0", "pytorch"),
        ("auto", "NomicBertModel", "1.2.1", "python"),
        ("python", "XLMRobertaForSequenceClassification", "", "python"),
        ("auto", "GptOssForCausalLM", "1.0.0", ""),
        ("auto", "LlamaForCausalLM", "0.18.2", "engine"),
        ("pytorch", "LlamaForCausalLM", "0.18.2", ""),
        ("engine", "LlamaForCausalLM", "1.2.1", "engine"),
        ("engine", "GptOssForCausalLM", "1.2.1", ""),
        ("engine", "LlamaForCausalLM", "1.3.0", ""),
        ("auto", "FalconForCausalLM", "1.2.1", "engine"),
        ("pytorch", "FalconForCausalLM", "1.2.1", ""),
        ("auto", "FalconForCausalLM", "1.3.0", ""),
        ("auto", "Qwen3ForCausalLM", "0.18.2", ""),
        ("engine", "Qwen3ForCausalLM", "0.18.2", ""),
    ],
)
def test_a_path_is_chosen_by_wish_architecture_and_version(
    wish: str, architecture: str, trtllm: str, path: str
) -> None:
    """The path follows from the wish, the architecture and TensorRT-LLM's version."""
    assert choose_path(wish, ARCHITECTURES[architecture], trtllm).path == path


def test_a_path_comes_with_its_reason() -> None:
    """The plan shows the reason as a sentence."""
    assert choose_path("auto", ARCHITECTURES["GptOssForCausalLM"], "1.2.1").reason == (
        "GptOssForCausalLM runs on TensorRT-LLM's PyTorch backend since 1.1.0; this is 1.2.1"
    )


def test_the_refusal_of_an_older_release_names_the_first_that_serves_the_model() -> None:
    """gpt-oss is new in 1.1.0, which is in 26.02."""
    assert choose_path("auto", ARCHITECTURES["GptOssForCausalLM"], "1.0.0").attempt == 'release="26.02"'
