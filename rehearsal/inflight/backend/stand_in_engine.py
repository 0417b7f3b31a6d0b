"""Inputs of the C++ backend before it serves: parameters of config.pbtxt, an engine's directory, ranks and the GPU.

rehearsal stand-in. It refuses the same inputs as the real one: absent mandatory keys, an absent engine or one for
another GPU, version or number of ranks, and run-time settings that the engine was not built for. It also ignores
unknown keys.
"""

import json
import os
import subprocess
from pathlib import Path

VERSION = os.environ.get("REHEARSAL_TRTLLM", "1.2.1")
GUIDED = ("tokenizer_dir", "xgrammar_tokenizer_info_path", "guided_decoding_backend")
CHOICES = {
    "gpt_model_type": ("inflight_fused_batching", "inflight_batching"),
    "batch_scheduler_policy": ("guaranteed_no_evict", "max_utilization"),
    "decoding_mode": ("top_k", "top_p", "top_k_top_p", "beam_search", "medusa", "redrafter", "lookahead", "eagle"),
}
YES, NO = ("True", "true", "TRUE", "1"), ("False", "false", "FALSE", "0")
BOOLEANS = ("enable_kv_cache_reuse", "enable_chunked_context", "exclude_input_in_output", "normalize_log_probs")
NUMBERS = ("max_beam_width", "max_tokens_in_paged_kv_cache", "kv_cache_host_memory_bytes")
# Speculative decoding mode of the build that each run-time decoding mode requires.
BUILT_WITH = {"medusa": "medusa", "redrafter": "explicit_draft_tokens", "lookahead": "lookahead_decoding",
              "eagle": "eagle"}  # fmt: skip
LOOKAHEAD = ("lookahead_window_size", "lookahead_ngram_size", "lookahead_verification_set_size")


class Refused(RuntimeError):
    """The model does not load, with the reason."""


class Engine:
    """Settings and limits of one loaded engine."""

    def __init__(self, parameters):
        self.parameters = {name: value for name, value in parameters.items() if not value.startswith("${")}
        self._check_parameters()
        self.folder = self._folder()
        self.configuration = json.loads((self.folder / "config.json").read_text())
        self.pretrained, self.build = self.configuration["pretrained_config"], self.configuration["build_config"]
        self.header = self._headers()[0]
        self._check_engine()
        self.max_seq_len = int(self.build["max_seq_len"])
        self.max_input_len = int(self.build.get("max_input_len") or self.max_seq_len)
        self.vocabulary = int(self.pretrained["vocab_size"])
        self.max_beam_width = min(self.number("max_beam_width", 1), int(self.build.get("max_beam_width", 1)))
        self._check_together()

    def number(self, name, otherwise):
        """Returns an integer parameter."""
        return int(self.parameters.get(name) or otherwise)

    def truth(self, name, otherwise=False):
        """Returns a boolean parameter."""
        value = self.parameters.get(name)
        return otherwise if value is None else value in YES

    def built(self, flag):
        """Returns True if a switch or plugin was on when the engine was built."""
        value = self.build.get(flag, (self.build.get("plugin_config") or {}).get(flag))
        return value not in (None, False, "disable", "")

    def gathers(self, kind):
        """Returns True if the engine gives logits of this kind: context or generation."""
        return self.built(f"gather_{kind}_logits") or self.built("gather_all_token_logits")

    def describe(self):
        """Returns a line for the log."""
        return (
            f"{self.pretrained['architecture']} of {self.folder}, {self.header['precision']}, SM {self.header['sm']}, "
            f"max_seq_len {self.max_seq_len}, KV cache {self.parameters.get('max_tokens_in_paged_kv_cache', 'unbound')}"
        )

    def _check_parameters(self):
        known = self.parameters
        if "gpt_model_type" not in known:
            raise Refused("gpt_model_type is not specified: unexpected error when creating modelInstanceState")
        missing = [key for key in GUIDED if key not in known] if _newer_than("0.19") else []
        if missing:
            raise Refused(f"failed to find parameter {missing[0]}: unexpected error when creating modelInstanceState")
        for key, words in CHOICES.items():
            if known.get(key) and known[key] not in words:
                raise Refused(f"{key} {known[key]!r} is not one of {', '.join(words)}")
        for key in BOOLEANS:
            if known.get(key) and known[key] not in YES + NO:
                raise Refused(f"{key} {known[key]!r} cannot be converted to a boolean")
        for key in NUMBERS:
            if known.get(key) and not known[key].isdigit():
                raise Refused(f"{key} {known[key]!r} cannot be converted to a number")
        if known.get("worker_path"):
            raise Refused("worker_path parameter is specified, but this is no longer supported: executor_worker_path")

    def _folder(self):
        path = self.parameters.get("gpt_model_path", "")
        if not path:
            raise Refused("Both encoder and decoder model paths are empty")
        if not Path(path).is_dir():
            raise Refused(f"Decoder (GPT) model path at {path} does not exist.")
        return Path(path)

    def _headers(self):
        ranks = self.pretrained["mapping"]["world_size"]
        here = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
        if ranks != here:
            raise Refused(f"mpiSize == tp * pp does not hold: the engine has {ranks} ranks and MPI has {here}")
        headers = []
        for rank in range(ranks):
            with (self.folder / f"rank{rank}.engine").open("rb") as file:
                headers.append(json.loads(file.readline()))
        return headers

    def _check_engine(self):
        if self.configuration["version"] != VERSION:
            raise Refused(
                f"The engine was built with TensorRT-LLM {self.configuration['version']} and this is {VERSION}: "
                "the plan file cannot be deserialised"
            )
        here = gpu_sm()
        if here != self.header["sm"]:
            raise Refused(f"The engine plan file was built for SM {self.header['sm']}, not supported on SM {here}")

    def _check_together(self):
        tokens = self.number("max_tokens_in_paged_kv_cache", self.max_seq_len)
        if tokens < self.max_seq_len:
            raise Refused(
                f"the key/value cache holds {tokens} tokens (max_tokens_in_paged_kv_cache) and must be large enough "
                f"for one sequence of {self.max_seq_len}"
            )
        for key in ("enable_chunked_context", "enable_kv_cache_reuse"):
            if self.truth(key) and not self.built("use_paged_context_fmha"):
                raise Refused(f"{key} needs an engine built with use_paged_context_fmha")
        mode = self.parameters.get("decoding_mode", "")
        if mode in BUILT_WITH and self.build.get("speculative_decoding_mode") != BUILT_WITH[mode]:
            raise Refused(f"decoding_mode {mode} needs an engine built with {BUILT_WITH[mode]}")
        missing = [key for key in LOOKAHEAD if mode == "lookahead" and not self.parameters.get(key)]
        if missing:
            raise Refused(f"decoding_mode lookahead needs {', '.join(missing)}")
        information = self.parameters.get("xgrammar_tokenizer_info_path")
        if self.parameters.get("guided_decoding_backend") and not (information and Path(information).is_file()):
            raise Refused(f"Xgrammar's tokenizer info path at {information} does not exist.")


def gpu_sm():
    """Returns the compute capability of the first GPU, as `90`."""
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError) as trouble:
        raise Refused(f"no CUDA-capable device is detected ({trouble})") from None
    return output.splitlines()[0].strip().replace(".", "")


def _newer_than(floor):
    return [int(part) for part in VERSION.split(".")[:2]] >= [int(part) for part in floor.split(".")]
