"""Run-time parameters of a finished engine, release by release."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from deploy.catalog.runtime_keys import RUNTIME_KEYS
from deploy.spec import Adapter, Eagle, KVCache, Lookahead, LoRA, Medusa, ReDrafter, Weights
from tests.engine.engines import REVISION, a_draft, a_model, an_engine

ENGINE, WEIGHTS = Path("/engines/e"), Path("/weights/w")


def parameters(
    trtllm: str = "1.2.1", part: str = "tensorrt_llm", flags: dict[str, str] | None = None, **llm: Any
) -> Any:
    """The parameters of one model."""
    return cast(Any, a_model(an_engine(ENGINE, **(flags or {})), WEIGHTS, trtllm, **llm).settings[part])


@pytest.mark.parametrize("trtllm", ["0.18.2", "1.0.0", "1.1.0", "1.2.1"])
def test_only_keys_the_backend_reads_are_written(trtllm: str) -> None:
    assert set(parameters(trtllm)) <= set(RUNTIME_KEYS)


@pytest.mark.parametrize(("trtllm", "there"), [("0.18.2", False), ("1.0.0", True), ("1.2.1", True)])
def test_keys_of_guided_decoding_are_there_from_0_19(trtllm: str, there: bool) -> None:
    keys = {"tokenizer_dir", "xgrammar_tokenizer_info_path", "guided_decoding_backend"}
    assert (keys <= set(parameters(trtllm)), bool(keys & set(parameters(trtllm)))) == (there, there)


def test_the_cache_is_bounded_in_tokens_and_the_fraction_lets_them_decide() -> None:
    written = parameters()
    assert (written["max_tokens_in_paged_kv_cache"], written["kv_cache_free_gpu_mem_fraction"]) == ("4096", "0.9")


def test_run_time_settings_contain_no_build_flag() -> None:
    assert set(parameters()) & {"max_batch_size", "max_seq_len", "max_input_len", "max_num_tokens"} == set()


def test_reuse_and_chunks_need_an_engine_with_paged_context() -> None:
    written = parameters(
        flags={"use_paged_context_fmha": "disable"}, chunked_prefill=True, kv_cache=KVCache(reuse=True)
    )
    assert (written["enable_kv_cache_reuse"], written["enable_chunked_context"]) == ("false", "false")


def test_chunks_follow_the_inventory_where_the_engine_has_the_kernel() -> None:
    assert [parameters(chunked_prefill=on)["enable_chunked_context"] for on in (True, False)] == ["true", "false"]


def test_host_memory_for_blocks_is_in_bytes() -> None:
    assert parameters(kv_cache=KVCache(host_mib=2))["kv_cache_host_memory_bytes"] == "2097152"


def test_the_beam_width_is_the_engine_s() -> None:
    by_width = [parameters(flags={"max_beam_width": width}) for width in ("1", "4")]
    assert [(written["max_beam_width"], written["decoding_mode"]) for written in by_width] == [
        ("1", "top_k_top_p"),
        ("4", "beam_search"),
    ]


HEAD = Weights.hub("example/head", REVISION)


@pytest.mark.parametrize(("speculative", "mode"), [
    (Medusa(weights=HEAD), "medusa"), (Eagle(weights=HEAD), "eagle"), (ReDrafter(weights=HEAD), "redrafter"),
    (Lookahead(), "lookahead"), (None, "top_k_top_p"),
])  # fmt: skip
def test_the_decoding_mode_matches_the_engines_speculation(speculative: Any, mode: str) -> None:
    assert parameters(flags={"max_beam_width": "1"}, speculative=speculative)["decoding_mode"] == mode


def test_lookahead_says_its_three_sizes() -> None:
    written = parameters(speculative=Lookahead(window=5, ngram=6, verification=7))
    assert [written[f"lookahead_{name}"] for name in ("window_size", "ngram_size", "verification_set_size")] == [
        "5", "6", "7",
    ]  # fmt: skip


def test_a_tree_of_one_s_own_is_written_as_the_backend_reads_it() -> None:
    assert parameters(speculative=Medusa(weights=HEAD, choices="[[0], [0, 0]]"))["medusa_choices"] == "{0}, {0, 0}"
    assert (
        parameters(speculative=Eagle(weights=HEAD, choices="[[0], [1], [0, 2]]"))["eagle_choices"] == "{0}, {1}, {0, 2}"
    )


def test_the_backends_own_tree_is_not_named() -> None:
    assert "medusa_choices" not in parameters(speculative=Medusa(weights=HEAD, choices="mc_sim_7b_63"))


def test_adapters_get_their_caches() -> None:
    adapter = Adapter(name="tone", task_id=7, weights=HEAD)
    written = parameters(lora=LoRA(adapters=(adapter,), max_rank=16, host_mib=1, gpu_mib=2048))
    assert {key: value for key, value in written.items() if key.startswith("lora")} == {
        "lora_cache_gpu_memory_fraction": "0.5",
        "lora_cache_host_memory_bytes": "1048576",
        "lora_cache_max_adapter_size": "16",
        "lora_cache_optimal_adapter_size": "16",
        "lora_prefetch_dir": "/var/cache/enginehouse/lora/llama",
    }


def test_guided_decoding_names_its_backend_and_tokenizer() -> None:
    written = parameters(guided_decoding=True)
    assert (written["guided_decoding_backend"], written["tokenizer_dir"]) == ("xgrammar", "/weights/w")


def test_a_draft_model_has_an_engine_of_its_own_and_the_bls_model_knows_it() -> None:
    settings: Any = a_model(
        an_engine(ENGINE), WEIGHTS, draft=an_engine(Path("/engines/d"), "draft"), speculative=a_draft()
    ).settings
    assert (
        settings["tensorrt_llm_draft"]["gpt_model_path"],
        settings["tensorrt_llm_bls"]["tensorrt_llm_draft_model_name"],
    ) == ("/engines/d", "llama_tensorrt_llm_draft")


def test_a_draft_pins_no_host_memory_that_the_plan_has_not_counted() -> None:
    """`host_mib` is counted once for every rank of a model, and its draft would pin as much again."""
    draft = an_engine(Path("/engines/d"), "draft")
    cache = KVCache(host_mib=2)
    settings: Any = a_model(an_engine(ENGINE), WEIGHTS, draft=draft, speculative=a_draft(), kv_cache=cache).settings
    host_bytes = [settings[role]["kv_cache_host_memory_bytes"] for role in ("tensorrt_llm", "tensorrt_llm_draft")]
    assert host_bytes == ["2097152", "0"]


def test_the_queue_has_the_inventorys_length() -> None:
    assert parameters(part="queue", max_queue_size=9) == {"max_batch_size": 8, "max_queue_size": 9}
