"""`enginehouse fit`: near names of cards, hub ids, local directories, and settings of an LLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from deploy.cli.fit import CACHES
from deploy.io.fit_models import models_of
from deploy.models.config_json import checkpoint_of
from deploy.planning.card_words import cards_of, confirm_order
from deploy.planning.fit import Fit, FitOptions, card_of, fit_of, model_named, near_card
from deploy.refusals.errors import Refusal
from deploy.spec import LLM, Checkpoint, Embedder, KVCache, Weights
from tests.unit.samples import AROUND, ONE_B
from tests.unit.test_local_weights import safetensors

STATE = "  state   planning; no host was changed"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 16,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 8192,
    "vocab_size": 128_256,
    "max_position_embeddings": 131_072,
}
"""The numbers of Llama-3.2-1B's own config.json."""


@pytest.mark.parametrize(
    ("word", "card", "sentence"),
    [
        ("h100-80", "h100-80", ""),
        ("H100-80", "h100-80", ""),
        (
            "h100",
            "h100-80",
            "h100 is taken as h100-80 (H100 SXM5 80GB); there is also h100-pcie-80 (H100 PCIe 80GB), "
            "h100-nvl-94 (H100 NVL 94GB)",
        ),
        ("H100 PCIe", "h100-pcie-80", "H100 PCIe is taken as h100-pcie-80 (H100 PCIe 80GB)"),
        ("l40s", "l40s-48", "l40s is taken as l40s-48 (L40S 48GB)"),
        ("h900", "h900", ""),
        ("gh200", "gh200-96", "gh200 is taken as gh200-96 (GH200 96GB)"),
        ("H20", "h20-96", "H20 is taken as h20-96 (H20 SXM5 96GB)"),
        ("Tesla T4", "t4-16", ""),
    ],
)
def test_a_near_name_of_a_card_is_accepted_with_a_note(word: str, card: str, sentence: str) -> None:
    """The accepted card is the common board of the family; the plan refuses a card beside an Arm processor."""
    assert near_card(word) == (card, sentence)


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("rtx4080", ""),
        ("RTX 5000 Ada", ""),  # no RTX PRO 6000
        ("h100sxm", "h100-80"),
        ("A10M", "a10-24"),
        ("NVIDIA L40X", "l40-48"),
    ],
)
def test_an_unknown_card_is_offered_its_own_numbers_and_only_boards_of_its_kind(word: str, near: str) -> None:
    with pytest.raises(Refusal) as refused:
        confirm_order(word, ("qwen3-8b",))
    own = "-".join(word.lower().split())
    assert refused.value.attempt.startswith(f"did you mean `{near}`?" if near else "known: ")
    assert refused.value.attempt.endswith(f"enginehouse fit {own} qwen3-8b --sm 89 --mib 24564")
    fitted = fit_of(
        own, (model_named("qwen3-8b"),), "26.07", AROUND, FitOptions(max_seq_len=4096), card_of(own, "89", 24_564)
    )
    assert fitted.cache_tokens > 4096


@pytest.mark.parametrize(
    ("word", "attempt"),
    [("8 h100s", "enginehouse fit h100-80 qwen3-8b --tp 8"), ("8xV100", "known: "), ("2x RTX 5000 Ada", "known: ")],
)
def test_a_card_with_a_count_is_offered_as_a_command_or_not_at_all(word: str, attempt: str) -> None:
    with pytest.raises(Refusal) as refused:
        confirm_order(word, ("qwen3-8b",))
    assert refused.value.attempt.startswith(attempt)
    with pytest.raises(Refusal) as refused:
        cards_of([word])
    assert refused.value.attempt.startswith(attempt.replace("enginehouse fit h100-80 qwen3-8b --tp 8", "--gpu h100-80"))


def test_a_hub_id_of_the_catalog_is_its_checkpoint(tmp_path: Path) -> None:
    """Letter case does not matter; the commit is the catalog's."""
    ((model,), _around) = models_of(["qwen/qwen3-8B"], AROUND, tmp_path)
    assert (model.name, model.checkpoint) == ("qwen3-8b", "qwen3-8b")


def checkpoint(directory: Path, **changes: Any) -> str:
    """The path of a local checkpoint whose one tensor has as many elements as Llama-3.2-1B."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(CONFIG | changes))
    safetensors(directory / "model.safetensors", weights=("BF16", [1, 1_235_814_400]))
    return str(directory)


def test_a_local_directory_is_read_as_the_planner_reads_one(tmp_path: Path) -> None:
    """The shape is read from config.json, the number of parameters from the headers."""
    path = checkpoint(tmp_path / "My Llama")
    ((model,), around) = models_of([path], AROUND, tmp_path)
    assert (model.name, model.checkpoint, model.weights) == ("my-llama", ONE_B, Weights.local(path))
    assert around.local[path].parameters == ONE_B.parameters


def test_a_local_directory_fits(tmp_path: Path) -> None:
    """The directory holds 2,358 MiB of 16-bit weights."""
    models, around = models_of([checkpoint(tmp_path / "llama")], AROUND, tmp_path)
    fit = fit_of("h100-80", models, "26.07", around)
    assert (fit.plan.slices[0].servers[0].models[0].memory.weights_mib, fit.llm) == (2358, "llama")


@pytest.mark.parametrize(
    ("files", "seen"),
    [
        ({}, "no config.json"),
        (
            {"config.json": "{"},
            "config.json: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        ({"config.json": "[]"}, "config.json is not a JSON object"),
    ],
)
def test_a_directory_that_is_no_checkpoint_is_refused(tmp_path: Path, files: dict[str, str], seen: str) -> None:
    """The refusal names what is missing."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(Refusal) as refused:
        models_of(["."], AROUND, tmp_path)
    assert str(refused.value) == (
        ". is a directory, and no checkpoint\n"
        "  where   .\n"
        f"  seen    {seen}\n"
        "  wanted  config.json, and the safetensors files whose headers say how large the model is\n"
        "  try     hf download REPOSITORY --local-dir .\n" + STATE
    )


def test_a_config_without_a_number_is_refused() -> None:
    """The refusal lists all missing numbers, by the names of config.json."""
    with pytest.raises(Refusal) as refused:
        checkpoint_of({"vocab_size": 5, "hidden_size": 4}, 1, "x/config.json")
    assert refused.value.problem == (
        "x/config.json does not say num_hidden_layers, num_attention_heads, max_position_embeddings, architectures"
    )


def test_a_name_without_its_owner_is_refused_before_any_card_is_judged(tmp_path: Path) -> None:
    """`size` judged every card first, and said of each that the model does not fit."""
    with pytest.raises(Refusal) as refused:
        models_of(["qwen3-32b"], AROUND, tmp_path)
    assert refused.value.attempt.startswith("OWNER/qwen3-32b with its owner")
    assert models_of(["GPT-OSS-20B"], AROUND, tmp_path)[0][0].name == "gpt-oss-20b"


def test_a_directory_without_weights_is_refused_with_its_content(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(Refusal) as refused:
        models_of(["."], AROUND, tmp_path)
    assert refused.value.problem.startswith(". holds pickles, and loading a pickle runs the code in it")
    assert refused.value.facts["seen"] == "pytorch_model.bin"


@pytest.mark.parametrize("config", [{"architectures": "Llama"}, {"architectures": [7]}, {"architectures": {"a": 1}}])
def test_an_odd_config_is_refused_and_never_a_traceback(config: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        checkpoint_of(config | {"quantization_config": [1], "text_config": "x"}, 1, "x/config.json")


def test_weights_in_a_format_that_nothing_reads_are_never_counted_as_16_bit() -> None:
    """The plan refuses weights in an unknown format by the format's name."""
    stored = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    assert checkpoint_of(CONFIG | {"quantization_config": stored}, 1, "x/config.json").format == "bitsandbytes"


@pytest.mark.parametrize(
    ("stored", "known"),
    [
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "gptq"}, "gptq"),
    ],
)
def test_stored_precision_is_read(stored: dict[str, str], known: str) -> None:
    """The result is the planner's own word for the precision."""
    assert checkpoint_of(CONFIG | {"quantization_config": stored}, 1, "x").quantisation == known


def test_a_latent_is_read() -> None:
    """For DeepSeek-V3 the head's size is that of its values."""
    latent = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1536, "v_head_dim": 128, "head_dim": 192}
    shape: Checkpoint = checkpoint_of(CONFIG | latent, 1, "x")
    assert (shape.kv_lora_rank, shape.qk_rope_head_dim, shape.q_lora_rank, shape.head_dim) == (512, 64, 1536, 128)


def fitted(*words: str, card: str = "h100-80", **wish: Any) -> Fit:
    models, around = models_of(words, AROUND, Path("."))
    return fit_of(card, models, "26.07", around, FitOptions(**wish))


def test_a_longer_context_is_a_row_of_its_own() -> None:
    """The longer context is among the usual rows, in order."""
    assert list(fitted("qwen3-8b", max_seq_len=16_384).users) == [2048, 8192, 16_384, 32_768]


def test_a_model_that_prefills_in_one_piece_gets_an_iteration_as_long() -> None:
    """The model's workspace grows with the prompt."""
    (model,) = fitted("gpt-oss-20b", max_seq_len=65_536).plan.slices[0].servers[0].models
    assert model.memory.workspace_mib == 15_502


def test_two_gpus_hold_half_the_weights_each() -> None:
    """All GPUs are used for tensor parallelism."""
    server = fitted("llama-3.1-70b-instruct", card="h200-141", gpus=2).plan.slices[0].servers[0]
    assert (server.gpus, server.models[0].memory.weights_mib) == ((0, 1), 67_286)


def test_an_engine_s_texts_are_taken_for_granted() -> None:
    """A fit only calculates room."""
    (model,) = fitted("llama-3.1-8b-instruct", path="engine", precision="fp8").plan.slices[0].servers[0].models
    assert (model.path, model.memory.weights_mib) == ("engine", 8661)


def test_a_cache_of_eight_bits_holds_twice_the_tokens() -> None:
    plain, small = fitted("qwen3-8b"), fitted("qwen3-8b", cache="fp8")
    assert small.plan.slices[0].servers[0].models[0].kv_dtype == "fp8"
    assert small.cache_tokens == pytest.approx(2 * plain.cache_tokens, rel=0.001)


def test_every_type_of_a_cache_can_be_asked_for() -> None:
    assert tuple(CACHES) == get_args(get_type_hints(KVCache)["dtype"])


def test_an_encoder_is_as_it_comes() -> None:
    """The settings are only for the LLM."""
    ((model,), _around) = models_of(["nomic-embed-text-v2-moe"], AROUND, Path("."))
    assert isinstance(model, Embedder) and not isinstance(model, LLM)
    assert fitted("nomic-embed-text-v2-moe", max_seq_len=100_000).llm == ""


def test_a_card_that_the_catalog_lacks_is_counted_by_its_typed_numbers() -> None:
    """Tokens follow from the card's MiB, as on a row of the catalog with the same numbers."""
    model = LLM(name="mine", checkpoint=ONE_B, weights=Weights.hub("example/mine", "b" * 40))
    small, large = (fit_of("rtx-5090-32", (model,), "26.07", AROUND, card=card_of("x", "120", mib)) for mib in SIZES)
    assert small.plan.slices[0].gpu_mib == SIZES[0]
    per_token = 2 * ONE_B.layers * ONE_B.kv_heads * ONE_B.head_dim * 2
    more = (SIZES[1] - SIZES[0]) * 2**20 // per_token
    assert large.cache_tokens - small.cache_tokens == pytest.approx(more, abs=64)


SIZES = (24_576, 32_607)


@pytest.mark.parametrize(
    ("name", "sm", "mib", "words"),
    [("h100-80", "90", 81_559, "is in the catalog already"), ("rtx-5090-32", "120", 0, "has two numbers here"),
     ("rtx-5090-32", "", 32_607, "has two numbers here")],
)  # fmt: skip
def test_half_a_card_and_a_card_twice_are_refused(name: str, sm: str, mib: int, words: str) -> None:
    with pytest.raises(Refusal, match=words) as caught:
        card_of(name, sm, mib)
    assert caught.value.attempt.startswith("enginehouse fit ")


def test_a_card_without_numbers_is_looked_up() -> None:
    assert card_of("h100-80", "", 0) is None


def test_a_wrong_capability_is_refused_as_in_an_inventory() -> None:
    model = LLM(name="mine", checkpoint=ONE_B, weights=Weights.hub("example/mine", "b" * 40))
    with pytest.raises(Refusal) as caught:
        fit_of("rtx-5090-32", (model,), "26.07", AROUND, card=card_of("x", "12.0", 32_607))
    assert caught.value.kind == "own-card"
