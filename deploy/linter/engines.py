"""Judges the three programs that make engines as a whole: availability in the release, the model, and the path.

Their flags are judged one by one in `deploy.linter.trtllm`.
"""

import re
from dataclasses import replace

from deploy.catalog.flags import (
    FAMILIES,
    FlagTable,
    build_flags,
    convert_flags,
    convert_script,
    engines_are_built_by,
    quantize_flags,
)
from deploy.catalog.releases import LAST_ENGINE_TRTLLM, LAST_WITH_ENGINES, first_offered
from deploy.catalog.versions import version
from deploy.linter.findings import Call, Judged, raws
from deploy.linter.flag_conflicts import judge_experts, judge_together
from deploy.linter.options import argparse_options
from deploy.linter.release import Target
from deploy.linter.trtllm import judge_flags

GPT_OSS = re.compile(r"gpt[-_]?oss", re.IGNORECASE)
FAMILY = re.compile(r"examples/(?:models/(?:core|contrib)/)?([\w-]+)/convert_checkpoint\.py$")
EXAMPLES = re.compile(r"(?:^|/)(examples/.+)$")
SERVED_BY_LLAMA = ("mistral", "mixtral")
QUANTIZE_PATH = "examples/quantization/quantize.py"
FIRST_IMAGE_WITH_EXAMPLES, FIRST_WITH_SCRIPTS = (25, 1), "0.17.0"


def judge_build(call: Call, target: Target) -> Judged:
    """Findings about `trtllm-build …`."""
    judged = Judged()
    table = build_flags(target.trtllm)
    if _cannot_run(judged, call, target, table):
        return judged
    flags = judge_flags(table, call.args)
    judged.right = [*call.head, *judged.take(flags)]
    options = {option.name: option for option in argparse_options(call.args)}
    judge_together(judged, table, options)
    return judged


def judge_convert(call: Call, target: Target) -> Judged:
    """Findings about `python …/convert_checkpoint.py …`; unknown families are judged by flags of all scripts."""
    judged = Judged()
    match = FAMILY.search(call.script)
    named = match.group(1) if match else ""
    family = "llama" if named in SERVED_BY_LLAMA else named
    table = convert_flags(target.trtllm, family) if family in FAMILIES else _any_family(target.trtllm)
    if _cannot_run(judged, call, target, table):
        return judged
    script = _script(judged, call, target, convert_script(target.trtllm, family) if family in FAMILIES else ())
    if not script:
        return judged
    if family == "eagle":
        return _eagle(judged, call, target, script)
    if family and family not in FAMILIES:
        _unread(judged, call, family)
        judged.right = [*call.head[:-1], script, *(word.raw for word in call.args)]
        return judged
    judged.right = [*call.head[:-1], script, *judged.take(judge_flags(table, call.args))]
    judge_experts(judged, {option.name: option for option in argparse_options(call.args)})
    return judged


def judge_quantize(call: Call, target: Target) -> Judged:
    """Findings about `python …/quantize.py …`."""
    judged = Judged()
    table = quantize_flags(target.trtllm)
    if _cannot_run(judged, call, target, table):
        return judged
    script = _script(judged, call, target, (QUANTIZE_PATH,))
    if not script:
        return judged
    judged.right = [*call.head[:-1], script, *judged.take(judge_flags(table, call.args))]
    return judged


def _cannot_run(judged: Judged, call: Call, target: Target, table: FlagTable) -> bool:
    """True if no flag can be judged: the program is gone or unknown, or the model can have no engine."""
    model = next((word.raw for word in call.args if GPT_OSS.search(word.text)), "")
    if model:
        judged.add(
            "no-engine",
            "gpt-oss has no TensorRT engine in any release: nothing converts, quantises or builds it",
            seen=f"{call.program} … {model}",
            wanted="Triton's llmapi model, which reads the published MXFP4 weights from TensorRT-LLM 1.1 on",
            attempt='LLM("gpt-oss-20b", …) in an inventory; enginehouse fit h100-80 gpt-oss-20b says what fits',
        )
    elif not engines_are_built_by(target.trtllm) and target.trtllm:
        judged.add(
            "program-removed",
            f"{call.program} is not in TensorRT-LLM {target.trtllm}: engines ended with {LAST_ENGINE_TRTLLM}",
            seen=call.program,
            wanted=f"the llmapi model, or a release up to {LAST_WITH_ENGINES}",
            attempt=f'path="pytorch", or --release {LAST_WITH_ENGINES}',
        )
    elif not target.trtllm:
        judged.add(
            "no-such-image",
            f"release {target.name} has no image with TensorRT-LLM",
            seen=f"--release {target.name}",
            wanted="a release that has one",
            attempt=f"--release {LAST_WITH_ENGINES}",
        )
    elif table.is_unread:
        judged.know(
            "program-unread",
            f"the catalog does not list the flags of {call.program} in {target.in_words}",
            seen=call.program,
            wanted=f"TensorRT-LLM 0.11 to {LAST_ENGINE_TRTLLM}",
            attempt=f"{call.program} --help in that image; --release {LAST_WITH_ENGINES} judges by the last listed one",
        )
        judged.right = [*call.head, *raws(call.args)]
    return bool(judged.findings)


def _script(judged: Judged, call: Call, target: Target, places: tuple[str, ...]) -> str:
    """The script's path in this release and image, in the form to type; empty if the image lacks the script."""
    inside = EXAMPLES.search(call.script)
    if not inside:
        return call.script
    before = call.script[: inside.start(1)]
    tail = inside.group(1) if not places or inside.group(1) in places else places[-1]
    if tail != inside.group(1):
        judged.add(
            "script-moved",
            f"{inside.group(1)} is not where TensorRT-LLM {target.trtllm} keeps this script",
            seen=call.script,
            wanted=", ".join(places),
            attempt=f"{before}{tail}",
        )
    return _in_image(judged, target, before, tail)


def _in_image(judged: Judged, target: Target, before: str, tail: str) -> str:
    if not target.name or not before.startswith("/app/"):
        return before + tail
    if version(target.name) < FIRST_IMAGE_WITH_EXAMPLES:
        judged.add(
            "script-absent",
            f"the image of release {target.name} carries no example scripts",
            seen=before + tail,
            wanted="release 25.02 or later, whose images have /app/examples, or a finished checkpoint",
            attempt=f"the image of release {first_offered(FIRST_WITH_SCRIPTS)}, with the script in /app/examples",
        )
        return ""
    if before == "/app/tensorrt_llm/":
        judged.add(
            "script-absent",
            "/app/tensorrt_llm is in the tensorrt-llm/release images only; Triton's images have /app/examples",
            seen=before + tail,
            wanted=f"/app/{tail}",
            attempt=f"/app/{tail}",
        )
    return f"/app/{tail}"


def _any_family(trtllm: str) -> FlagTable:
    """The table of every flag of any convert script, for a script whose directory is unknown."""
    tables = [convert_flags(trtllm, family) for family in ("gpt", "qwen", "llama")]
    merged = {name: flag for table in tables for name, flag in table.flags.items()}
    certain = {name: flag for table in tables for name, flag in table.certain.items()}
    return replace(tables[-1], flags=merged, certain=certain)


def _unread(judged: Judged, call: Call, family: str) -> None:
    judged.know(
        "family-unread",
        f"the catalog does not list the flags of the {family} convert script",
        seen=call.script,
        wanted=f"{', '.join(FAMILIES)} are known by name",
        attempt=f"python {call.script} --help",
    )


def _eagle(judged: Judged, call: Call, target: Target, script: str) -> Judged:
    """Findings about EAGLE's convert script, which is new in 0.15 and needs the head beside the base model."""
    names = [option.name for option in argparse_options(call.args)]
    judged.right = [*call.head[:-1], script, *(word.raw for word in call.args)]
    if version(target.trtllm) < (0, 15):
        judged.add(
            "too-old",
            f"EAGLE arrived in TensorRT-LLM 0.15; this is {target.trtllm}",
            seen=call.script,
            wanted=f"TensorRT-LLM 0.15 to {LAST_ENGINE_TRTLLM}",
            attempt=f"--release {LAST_WITH_ENGINES}",
        )
        judged.right = []
    elif "--eagle_model_dir" not in names:
        judged.add(
            "missing-flag",
            "the eagle convert script needs the EAGLE head beside the base model",
            seen=", ".join([name for name in names if name]) or "no flags",
            wanted="--model_dir BASE --eagle_model_dir HEAD",
            attempt="--eagle_model_dir HEAD; the checkpoint it writes is the one to build",
        )
        judged.right += ["--eagle_model_dir", "HEAD"]
    return judged
