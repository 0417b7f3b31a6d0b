"""A log's end as a cause and a remedy, and a help text as flags: the two pure parts of the build."""

from __future__ import annotations

import pytest

from host.build import causes, flags

HELP = """\
usage: trtllm-build [-h] [--checkpoint_dir CHECKPOINT_DIR]
                    [--max_seq_len MAX_SEQ_LEN]

options:
  -h, --help            show this help message and exit
  --checkpoint_dir CHECKPOINT_DIR
                        The directory path, see --output_dir (default: None)
  --max_seq_len MAX_SEQ_LEN, --max_decoder_seq_len MAX_SEQ_LEN
                        Maximum total length (default: None)
  --strip_plan          Enable stripping (default: False)
  --lora_ckpt_source, -s {hf,nemo}
  --lora_target_modules {attn_q,attn_k} [{attn_q,attn_k} ...]

Plugin config arguments:
  --gemm_plugin {auto,float16,fp8,disable}
                        The GEMM plugin. (default: None)
"""


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "the GPU ran out of memory"),
        ("[TRT] [E] Error Code 2: OutOfMemory (Requested size was 9 bytes.)", "the GPU ran out of memory"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        (
            "trtllm-build: error: unrecognized arguments: --tp_size 2",
            "the program in the image has no flag `--tp_size 2`",
        ),
        (
            "error: argument --dtype: invalid choice: 'float8' (choose from 'auto')",
            "the program in the image does not accept the value 'float8' (choose from 'auto')",
        ),
        (
            "AssertionError: Unsupported model architecture: GptOssForCausalLM",
            "this release has no engine for the checkpoint's architecture",
        ),
        (
            "ConnectionError: Couldn't reach 'cnn_dailymail' on the Hub (OfflineModeIsEnabled)",
            "the texts for calibration are missing: a build has no network, and the default texts come from a hub",
        ),
        ("RuntimeError: NVFP4 is not supported on SM 90", "this GPU's SM cannot run the requested build"),
        ("CUDA error: no kernel image is available for execution", "this GPU's SM cannot run the requested build"),
        (
            "docker: Error: CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=3",
            "Docker does not know the requested GPU",
        ),
        ("Unable to find image 'a:b' locally", "the release's image is not on this host"),
        ("Bus error: nonexistent physical address", "shared memory was too small for the ranks of this build"),
        ("It looks like MPI_INIT failed for some reason", "MPI did not start inside the container"),
        ("terminate called: std::bad_alloc", "the host ran out of memory"),
        (
            "python3: can't open file '/app/x.py': [Errno 2]",
            "the build looked for /app/x.py, which is not in the container",
        ),
        ("Segmentation fault", "it ended with status 1; its cause is unknown; the log's last lines follow"),
    ],
)
def test_a_log_has_a_cause(log: str, cause: str) -> None:
    assert causes.cause_of(1, log)[0] == cause


@pytest.mark.parametrize("row", causes.CAUSES)
def test_every_cause_has_a_remedy(row: tuple[str, str, str]) -> None:
    assert len(row[2]) > 20


def test_a_process_the_kernel_killed_ran_out_of_the_hosts_memory() -> None:
    assert causes.cause_of(137, "", oom_kills=1)[0] == "the host ran out of memory: the kernel killed the build"


def test_a_kill_without_a_kernel_record_is_not_called_out_of_memory() -> None:
    assert causes.cause_of(137, "")[0] == (
        "the build was killed by another process, or by the kernel because the host ran out of memory"
    )


def test_the_end_of_a_log_has_no_progress_bars() -> None:
    assert causes.last_lines("a\n10%\r20%\r100%\n\nb\n") == ["a", "100%", "b"]


def test_every_name_of_a_flag_is_read() -> None:
    assert sorted(flags.flags_in(HELP)) == [
        *("--checkpoint_dir", "--gemm_plugin", "--help", "--lora_ckpt_source", "--lora_target_modules"),
        *("--max_decoder_seq_len", "--max_seq_len", "--strip_plan", "-h", "-s"),
    ]


def test_choices_are_those_of_all_names() -> None:
    assert flags.flags_in(HELP)["--lora_ckpt_source"].choices == ("hf", "nemo")


def test_a_flag_that_takes_several_values_has_choices() -> None:
    line = ["trtllm-build", "--lora_target_modules", "attn_q", "attn_v"]
    assert "--lora_target_modules takes attn_q, attn_k, and not attn_v" in flags.problems(line, HELP, "")[0]


def test_a_word_in_the_explanation_of_a_help_text_is_not_a_flag() -> None:
    assert "--output_dir" not in flags.flags_in(HELP)


def test_a_plan_the_image_takes_has_no_problem() -> None:
    line = ["trtllm-build", "--checkpoint_dir", "/a", "--gemm_plugin=fp8", "--max_decoder_seq_len", "9", "--strip_plan"]
    assert flags.problems(line, HELP, "") == []


def test_negative_numbers_are_values() -> None:
    assert flags.planned(["python3", "x.py", "--moe_tp_size", "-1"]) == [("--moe_tp_size", ["-1"])]
