"""The catalog of flags: their existence in each TensorRT-LLM, the certainty, and the intent of misquoted names."""

from __future__ import annotations

import pytest

from deploy.catalog.flags import FlagTable, build_flags, convert_flags, convert_script, quantize_flags
from deploy.catalog.guide_mistakes import DEPRECATED, MISQUOTED
from deploy.catalog.releases import RELEASES, ReleaseRow
from deploy.catalog.runtime_keys import RUNTIME_KEYS, choices_of, mandatory_keys
from deploy.catalog.verdicts import flag_verdict, value_verdict
from deploy.catalog.versions import version

SERVED = ("0.16.0", "0.18.2", "1.0.0", "1.1.0", "1.2.1")
TABLES = [build_flags(release) for release in SERVED] + [quantize_flags(release) for release in SERVED]


@pytest.mark.parametrize(
    "release", [row for row in RELEASES.values() if version(row.trtllm) >= (0, 11)], ids=lambda row: row.name
)
def test_every_release_with_tensorrt_llm_since_0_11_has_a_row(release: ReleaseRow) -> None:
    """Releases from 24.07 to 26.07 are checked."""
    assert build_flags(release.trtllm).row


@pytest.mark.parametrize(
    ("trtllm", "flags", "certain"),
    [("0.11.0", 66, 66), ("0.16.0", 66, 63), ("0.18.2", 66, 63), ("1.0.0", 67, 63), ("1.2.1", 67, 67)],
)
def test_a_row_that_is_near_is_sure_of_fewer_flags(trtllm: str, flags: int, certain: int) -> None:
    """Only flags of both neighbouring rows are certain."""
    table = build_flags(trtllm)
    assert (len(table.flags), len(table.certain)) == (flags, certain)


def test_a_row_says_how_exact_it_is_and_where_it_was_read() -> None:
    """Certainty and source have the words of the data file."""
    table = build_flags("1.1.0")
    assert (table.row, table.confidence, table.is_exact) == ("1.2", "near", False)
    assert "65f1d1536e18aea3380e6e270e00895a709333eb" in table.source


def test_flags_of_the_newer_side_only_are_not_certain() -> None:
    """Version 1.0 lies between a row without the flags and a row with them."""
    assert set(build_flags("1.0.0").flags) - set(build_flags("1.0.0").certain) == {
        "--dora_plugin",
        "--fuse_fp4_quant",
        "--gemm_allreduce_plugin",
        "--norm_quant_fusion",
    }


def test_a_choice_of_one_side_only_is_not_certain() -> None:
    """nvfp4 is new in a version between 0.18 and 1.2."""
    table = build_flags("1.0.0")
    assert ("nvfp4" in table.flags["--gemm_plugin"].choices, "nvfp4" in table.certain["--gemm_plugin"].choices) == (
        True,
        False,
    )


def test_a_switch_that_became_a_path_is_not_certain_in_between() -> None:
    """In 0.17 the kind of `--visualize_network` is uncertain."""
    assert "--visualize_network" not in build_flags("0.17.0").certain


def test_tensorrt_llm_1_3_has_no_build() -> None:
    """The build was removed from 1.3, which is different from an unknown version."""
    assert (build_flags("1.3.0").is_removed, build_flags("1.3.0").is_unread) == (True, False)


def test_an_unread_version_is_reported_as_unread() -> None:
    """No flags are guessed for a version that was not read."""
    assert (build_flags("7.0.0").is_unread, convert_flags("1.2.1", "falcon").is_unread) == (True, True)


def test_a_script_last_read_at_0_17_is_near_for_1_2() -> None:
    """Convert scripts moved, and were not read again."""
    assert convert_flags("1.2.1", "llama").confidence == (
        "near; convert_checkpoint.py was last read at 0.17.0.dev2024121700"
    )


@pytest.mark.parametrize(
    ("trtllm", "scripts"),
    [
        ("0.18.2", ("examples/llama/convert_checkpoint.py",)),
        ("0.19.0", ("examples/llama/convert_checkpoint.py", "examples/models/core/llama/convert_checkpoint.py")),
        ("1.2.1", ("examples/models/core/llama/convert_checkpoint.py",)),
    ],
)
def test_convert_scripts_moved(trtllm: str, scripts: tuple[str, ...]) -> None:
    """In 0.19 both paths are possible."""
    assert convert_script(trtllm, "llama") == scripts


@pytest.mark.parametrize(
    ("word", "kind", "instead"),
    [
        ("--max_batchsize", "unknown", "--max_batch_size"),
        ("--max-batch-size", "unknown", "--max_batch_size"),
        ("--max_output_len", "removed", "--max_seq_len"),
        ("--multi_block_mode", "run-time", ""),
        ("--batch_scheduler_policy", "run-time", ""),
        ("--tp_size", "elsewhere", ""),
        ("--use_fp8", "elsewhere", ""),
        ("--gpt_att", "prefix", "--gpt_attention_plugin"),
        ("--max_decoder_seq_len", "known", ""),
    ],
)
def test_a_wrong_name_gets_the_right_one_offered(word: str, kind: str, instead: str) -> None:
    """Names must match exactly; an abbreviation is not accepted."""
    verdict = flag_verdict(build_flags("1.2.1"), word)
    assert (verdict.kind, verdict.instead) == (kind, instead)


def test_a_flag_of_a_neighbouring_row_is_unsure_and_not_wrong() -> None:
    """The plugin flags of 0.18 to 0.21 are a lower bound."""
    assert flag_verdict(build_flags("0.20.0"), "--norm_quant_fusion").kind == "unsure"


@pytest.mark.parametrize(
    ("flag", "value", "instead"),
    [
        ("--gemm_plugin", "fp16", "float16"),
        ("--gemm_plugin", "bf16", "bfloat16"),
        ("--gemm_plugin", "float8", "fp8"),
        ("--gemm_plugin", "fp4", "nvfp4"),
        ("--gpt_attention_plugin", "fp8", "auto"),
        ("--speculative_decoding_mode", "lookahead", "lookahead_decoding"),
        ("--speculative_decoding_mode", "draft_target", "draft_tokens_external"),
        ("--speculative_decoding_mode", "none", ""),
        ("--max_batch_size", "2,048", "2048"),
        ("--max_batch_size", "many", None),
    ],
)
def test_a_value_outside_the_choices_gets_the_right_one_offered(flag: str, value: str, instead: str | None) -> None:
    """The value is spelt as in the guides."""
    table = build_flags("1.2.1")
    verdict = value_verdict(table, table.flags[flag], value)
    assert verdict and verdict.instead == instead


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.program}-{table.trtllm}")
def test_every_default_is_a_value_the_flag_takes(table: FlagTable) -> None:
    """A wrong default would be a copying error."""
    flags = [flag for flag in table.flags.values() if flag.default not in (None, "unset") and not flag.is_switch]
    assert [flag.name for flag in flags if value_verdict(table, flag, str(flag.default))] == []


def test_no_misquoted_flag_is_in_a_row_of_1_2() -> None:
    """A misquoted flag in a row would contradict the table of misquoted flags."""
    assert set(MISQUOTED["trtllm-build"]) & set(build_flags("1.2.1").names) == set()


def test_every_run_time_key_a_misquoted_flag_names_exists() -> None:
    """The message sends the operator to this key."""
    keys = [row.key for rows in MISQUOTED.values() for row in rows.values() if row.key]
    assert [key for key in keys if key not in RUNTIME_KEYS] == []


def test_the_replacement_of_a_deprecated_flag_exists() -> None:
    """The replacement's values exist too."""
    table = build_flags("1.2.1")
    assert all(set(values.values()) <= set(table.flags[flag].choices) for flag, values in DEPRECATED.values())


def test_guided_decoding_keys_are_mandatory_from_0_19() -> None:
    """Upstream has an uncaught lookup."""
    older, newer = ({key.name for key in mandatory_keys(release)} for release in ("0.18.2", "0.19.0"))
    assert newer - older == {"tokenizer_dir", "xgrammar_tokenizer_info_path", "guided_decoding_backend"}


def test_static_batching_ended_with_0_19() -> None:
    """`V1` is a word of older releases."""
    kind = RUNTIME_KEYS["gpt_model_type"]
    assert ("V1" in choices_of(kind, "0.19.0"), "V1" in choices_of(kind, "0.20.0")) == (True, False)
