"""Flags and values that guides write and TensorRT-LLM does not take, with the intended ones.

A name is misquoted only if the table of the release lacks it: 0.11 still took some of these.
Sources: NVIDIA/TensorRT-LLM tensorrt_llm/commands/build.py at v0.11.0, v0.16.0 and 65f1d1536e, examples/, and the notes
in `data/trtllm-flags.json`; read 2026-11-20.
"""

from dataclasses import dataclass

from deploy.catalog.flags import BUILD, CONVERT, QUANTIZE

REMOVED, RUN_TIME, ELSEWHERE, NEVER = "removed", "run-time", "elsewhere", "never"


@dataclass(frozen=True)
class Misquoted:
    """A wrong name; `flag` replaces it in the same command, `key` is the intended run-time key."""

    name: str
    kind: str
    why: str
    flag: str = ""
    key: str = ""


_CHECKPOINT = "parallelism is read from the checkpoint: give it to convert_checkpoint.py or quantize.py"

_BUILD_PY = "it belonged to the build.py scripts of 0.5 to 0.7"

_BUILD = (
    Misquoted("--tp_size", ELSEWHERE, _CHECKPOINT),
    Misquoted("--pp_size", ELSEWHERE, _CHECKPOINT),
    Misquoted("--cp_size", ELSEWHERE, _CHECKPOINT),
    Misquoted("--ep_size", ELSEWHERE, _CHECKPOINT + " as --moe_ep_size"),
    Misquoted("--moe_tp_size", ELSEWHERE, _CHECKPOINT),
    Misquoted("--moe_ep_size", ELSEWHERE, _CHECKPOINT),
    Misquoted(
        "--max_output_len",
        REMOVED,
        "deprecated in 0.11, gone since 0.13; --max_seq_len counts prompt and answer together",
        flag="--max_seq_len",
    ),
    Misquoted(
        "--use_inflight_batching",
        RUN_TIME,
        "it belonged to the build.py scripts of 0.5 to 0.7; batching is chosen when serving",
        key="gpt_model_type",
    ),
    Misquoted(
        "--use_fp8",
        ELSEWHERE,
        "a switch of the llama convert script; argparse would take it here for --use_fp8_context_fmha",
    ),
    Misquoted("--enable_xqa", REMOVED, "removed in 0.16; the kernel is chosen by itself"),
    Misquoted("--strongly_typed", NEVER, "no such flag; engines are always strongly typed"),
    Misquoted("--medusa_num_heads", ELSEWHERE, "quantize.py has --num_medusa_heads"),
    Misquoted("--builder_opt", REMOVED, "removed by 0.14"),
    Misquoted("--lookup_plugin", REMOVED, "removed by 0.16"),
    Misquoted("--rmsnorm_plugin", REMOVED, "not in any release read from 0.11 on"),
    Misquoted(
        "--builder_force_num_profiles", REMOVED, "since 0.15 an environment variable: BUILDER_FORCE_NUM_PROFILES"
    ),
    Misquoted(
        "--use_custom_all_reduce",
        REMOVED,
        "gone since 0.13; how GPUs add up their results is chosen when the engine runs",
    ),
    Misquoted(
        "--context_fmha_fp32_acc",
        RUN_TIME,
        "gone from the build since 0.13; it is set when serving",
        key="enable_context_fmha_fp32_acc",
    ),
    Misquoted("--use_gpt_attention_plugin", REMOVED, _BUILD_PY, flag="--gpt_attention_plugin"),
    Misquoted("--use_gemm_plugin", REMOVED, _BUILD_PY, flag="--gemm_plugin"),
    Misquoted("--enable_context_fmha", REMOVED, _BUILD_PY + "; today's --context_fmha is on by default"),
    Misquoted("--use_lookup_plugin", REMOVED, _BUILD_PY),
    Misquoted("--use_rmsnorm_plugin", REMOVED, _BUILD_PY),
    Misquoted("--world_size", REMOVED, _BUILD_PY + "; " + _CHECKPOINT),
    Misquoted("--parallel_build", REMOVED, _BUILD_PY + "; --workers says how many ranks build at once"),
    Misquoted("--use_weight_only", ELSEWHERE, "a flag of convert_checkpoint.py"),
    Misquoted("--enable_fp8", REMOVED, _BUILD_PY + "; quantize.py --qformat fp8 makes FP8 checkpoints"),
    Misquoted("--fp8_kv_cache", REMOVED, _BUILD_PY + "; quantize.py --kv_cache_dtype fp8"),
    Misquoted("--model_dir", ELSEWHERE, "the build reads a converted checkpoint: --checkpoint_dir"),
    Misquoted("--dtype", ELSEWHERE, "the precision is in the checkpoint: convert_checkpoint.py --dtype"),
    Misquoted("--auto_parallel", REMOVED, "automatic parallelism was removed before 1.2; " + _CHECKPOINT),
    Misquoted("--gpus_per_node", REMOVED, "it belonged to --auto_parallel, removed before 1.2"),
    Misquoted("--cluster_key", REMOVED, "it belonged to --auto_parallel, removed before 1.2"),
)
_CONVERT = (
    Misquoted("--use_embedding_sharing", REMOVED, "removed in 0.16; sharing is found by itself"),
    Misquoted("--qformat", ELSEWHERE, "a flag of quantize.py"),
    Misquoted("--ep_size", NEVER, "expert parallelism is --moe_ep_size here", flag="--moe_ep_size"),
)
_QUANTIZE = (Misquoted("--use_fp8", ELSEWHERE, "a switch of the llama convert script; here it is --qformat fp8"),)

MISQUOTED: dict[str, dict[str, Misquoted]] = {
    BUILD: {row.name: row for row in _BUILD},
    CONVERT: {row.name: row for row in _CONVERT},
    QUANTIZE: {row.name: row for row in _QUANTIZE},
}

DEPRECATED = {
    (BUILD, "--paged_kv_cache"): ("--kv_cache_type", {"enable": "paged", "disable": "disabled"}),
}
"""Flags still parsed, and the flag and values to write instead."""

_SPELLINGS = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "float8": "fp8"}
_VALUES = {
    (BUILD, "--speculative_decoding_mode"): {
        "draft_target": "draft_tokens_external",
        "lookahead": "lookahead_decoding",
        "redrafter": "explicit_draft_tokens",
        "none": "",
    },
    (BUILD, "--gemm_plugin"): {"fp4": "nvfp4", "int8": "auto", "int4_weight_only": "auto"},
    (BUILD, "--gpt_attention_plugin"): {"fp8": "auto", "float8": "auto"},
    (CONVERT, "--dtype"): {"float8": "auto", "fp8": "auto"},
    (QUANTIZE, "--qformat"): {"float8": "fp8", "awq": "int4_awq", "int8": "int8_sq", "smoothquant": "int8_sq"},
}

VALUE_NOTES = {
    (BUILD, "--gpt_attention_plugin", "fp8"): "the plugin has no fp8; FP8 attention is --use_fp8_context_fmha enable",
    (BUILD, "--gemm_plugin", "int4"): "weight-only quantisation is in the checkpoint, not in a plugin",
    (BUILD, "--gemm_plugin", "int8"): "weight-only quantisation is in the checkpoint, not in a plugin",
    (BUILD, "--speculative_decoding_mode", "none"): "without speculation the flag is left out",
    (CONVERT, "--dtype", "fp8"): "FP8 weights come from quantize.py --qformat fp8",
}
"""Reasons against a misquoted value, by the spelling to which `value_meant` normalises it."""


def value_meant(program: str, flag: str, value: str, choices: tuple[str, ...]) -> str | None:
    """The choice that a misspelt value means; empty: leave the flag out; None: unknown."""
    lowered = value.lower()
    own = _VALUES.get((program, flag), {})
    for meant in (own.get(lowered), _SPELLINGS.get(lowered), lowered, value.upper()):
        if meant is not None and (meant == "" or meant in choices):
            return meant
    return None


def why_not(program: str, flag: str, value: str) -> str:
    """The explanation of a misquoted value; empty without one."""
    lowered = value.lower()
    for spelling in (lowered, _SPELLINGS.get(lowered, ""), lowered.split("_")[0]):
        if (program, flag, spelling) in VALUE_NOTES:
            return VALUE_NOTES[program, flag, spelling]
    return ""
