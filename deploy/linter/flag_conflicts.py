"""Flags that are right by themselves and wrong together: exclusive flags, pairs, and sizes that divide the ranks."""

from deploy.catalog.exclusive_flags import RIVALS
from deploy.catalog.flags import BUILD, FlagTable
from deploy.linter.findings import Judged
from deploy.linter.options import Option, without
from deploy.linter.trtllm import HELP, may_hold_more


def judge_together(judged: Judged, table: FlagTable, options: dict[str, Option]) -> None:
    """Adds contradictions between the flags of a build, and corrects its words."""
    _checkpoint(judged, table, options)
    _input_fits(judged, options)
    _rivals(judged, options)
    _pairs(judged, options)
    _streaming(judged, table, options)
    _eagle_checkpoint(judged, options)


def _checkpoint(judged: Judged, table: FlagTable, options: dict[str, Option]) -> None:
    """Adds the finding that a build names no checkpoint or, with random weights, no model configuration."""
    if {"--checkpoint_dir", "--model_config", *HELP} & set(options) or may_hold_more(table, options.values()):
        return
    judged.add(
        "missing-flag",
        f"{BUILD} builds from a checkpoint, and the command names none",
        seen="no --checkpoint_dir",
        wanted="--checkpoint_dir: the directory that convert_checkpoint.py or quantize.py wrote",
        attempt="--checkpoint_dir CHECKPOINT_DIR",
    )
    judged.right += ["--checkpoint_dir", "CHECKPOINT_DIR"]


def _is_number(text: str) -> bool:
    """True for a number that Python converts; it converts no 5,000 digits."""
    return text.isdecimal() and len(text) <= 18


def _input_fits(judged: Judged, options: dict[str, Option]) -> None:
    """Adds the finding of a --max_input_len above --max_seq_len: the builder reduces it, with a warning among
    thousands of lines."""
    prompt = options.get("--max_input_len")
    whole = options.get("--max_seq_len") or options.get("--max_decoder_seq_len")
    if not prompt or not whole or not _is_number(prompt.value) or not _is_number(whole.value):
        return
    if 0 < int(whole.value) < int(prompt.value):
        judged.add(
            "input-longer-than-sequence",
            f"prompts of {prompt.value} tokens do not fit: a sequence, prompt and answer together, has {whole.value}",
            seen=f"--max_input_len {prompt.value} --max_seq_len {whole.value}",
            wanted="--max_seq_len as long as the longest prompt and its answer together",
            attempt=f"--max_input_len {whole.value}, or a longer --max_seq_len",
        )
        _replace(judged.right, "--max_input_len", whole.value)


def judge_experts(judged: Judged, options: dict[str, Option]) -> None:
    """Adds the finding of an expert parallelism that does not divide the tensor-parallel size; expert parallelism
    needs no further GPUs."""
    numbers = {name: options[name].value for name in ("--tp_size", "--moe_tp_size", "--moe_ep_size") if name in options}
    if "--moe_ep_size" not in numbers or not all(_is_number(value) and int(value) for value in numbers.values()):
        return
    tp, ep = int(numbers.get("--tp_size", "1")), int(numbers["--moe_ep_size"])
    moe_tp = int(numbers["--moe_tp_size"]) if "--moe_tp_size" in numbers else 0
    if (moe_tp * ep == tp) if moe_tp else (tp % ep == 0):
        return
    judged.add(
        "experts-do-not-divide",
        f"--moe_ep_size has to divide --tp_size, and {ep} does not divide {tp}",
        seen=" ".join(f"{name} {value}" for name, value in numbers.items()),
        wanted="--moe_tp_size × --moe_ep_size = --tp_size",
        attempt=f"--moe_tp_size 1 --moe_ep_size {tp}",
    )
    for name in ("--moe_tp_size", "--moe_ep_size"):
        _replace(judged.right, name, str(tp) if name == "--moe_ep_size" else "1")


def _replace(words: list[str], name: str, value: str) -> None:
    for place, raw in enumerate(words):
        if raw == name and place + 1 < len(words):
            words[place + 1] = value
        elif raw.startswith(name + "="):
            words[place] = f"{name}={value}"


def _rivals(judged: Judged, options: dict[str, Option]) -> None:
    for name, value, rival in RIVALS:
        here, there = options.get(name), options.get(rival)
        if here and there and value in ("", here.value) and there.value != "0":
            judged.add(
                "flags-exclude-each-other",
                f"`{name}` and `{rival}` exclude each other; the build stops on them",
                seen=f"{' '.join(here.raw)} {' '.join(there.raw)}",
                wanted=f"{name} or {rival}, not both",
                attempt=f"leave {rival} out",
            )
            judged.right = without(judged.right, rival)


def _pairs(judged: Judged, options: dict[str, Option]) -> None:
    pair = ("--model_cls_file", "--model_cls_name")
    if sum(name in options for name in pair) == 1:
        absent = next(name for name in pair if name not in options)
        judged.add(
            "missing-flag",
            f"`{pair[0]}` and `{pair[1]}` are given together",
            seen=next(name for name in pair if name in options),
            wanted="both, or neither",
            attempt=f"add {absent}",
        )
        judged.right += [absent, "…"]


def _streaming(judged: Judged, table: FlagTable, options: dict[str, Option]) -> None:
    flag, value = table.find("--streamingllm"), options.get("--streamingllm")
    if flag and flag.note and value and value.value == "enable":
        judged.add(
            "flag-without-use",
            f"`--streamingllm enable` is read, and the build then stops: {flag.note}",
            seen="--streamingllm enable",
            wanted="--streamingllm disable, the default",
            attempt="leave --streamingllm out",
        )
        judged.right = without(judged.right, "--streamingllm")


def _eagle_checkpoint(judged: Judged, options: dict[str, Option]) -> None:
    mode, checkpoint = options.get("--speculative_decoding_mode"), options.get("--checkpoint_dir")
    if mode and checkpoint and mode.value == "eagle" and "eagle" not in checkpoint.value and not checkpoint.varies:
        judged.know(
            "eagle-checkpoint",
            f"mode eagle of {BUILD} needs the checkpoint that the eagle convert script wrote, not a plain one",
            seen=" ".join(checkpoint.raw),
            wanted="the --output_dir of examples/eagle/convert_checkpoint.py",
            attempt="--checkpoint_dir with that directory",
        )
