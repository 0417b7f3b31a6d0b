"""Takes pasted text apart and hands each command, or the whole file, to the judge that knows it."""

from __future__ import annotations

import json
import re

from deploy.catalog.names import FEW
from deploy.paste import clients, docker, engines, others, server
from deploy.paste.calls import call_of
from deploy.paste.findings import Call, Finding, Judge, Judged, masked, raws, several
from deploy.paste.model_config import is_model_config, judge_model_config
from deploy.paste.release import Target, target_named, target_of_image
from deploy.paste.report import Checked, Report
from deploy.paste.words import Pasted, pasted

JUDGES: dict[str, Judge] = {
    "trtllm-build": engines.judge_build,
    "convert_checkpoint.py": engines.judge_convert,
    "quantize.py": engines.judge_quantize,
    "tritonserver": server.judge_tritonserver,
    "trtllm-serve": server.judge_trtllm_serve,
    "launch_triton_server.py": server.judge_launch_script,
    "curl": clients.judge_curl,
    "hf": clients.judge_hf,
    "huggingface-cli": clients.judge_hf,
    "genai-perf": clients.judge_genai_perf,
    "nvidia-ctk": clients.judge_nvidia_ctk,
    "pip": others.judge_pip,
    "pip3": others.judge_pip,
    "git": others.judge_git,
    "sed": others.judge_sed,
    "cp": others.judge_cp,
    "pkill": others.judge_pkill,
    "ENV": others.judge_env,
    "inflight_batcher_llm_client.py": others.judge_batcher_client,
}
PROGRAM_NAME = re.compile(r"[\w./+-]{1,40}")
ENGINE_PROGRAMS = ("trtllm-build", "convert_checkpoint.py", "quantize.py")
KNOWN = ("docker run, login, pull, build", *JUDGES, "a config.pbtxt")
BREAKS = {
    "comment-in-continuation": (
        "a comment ends the command there: the shell runs what stands before it, then the rest as another command",
        "no comments between the lines of one command",
    ),
    "blank-in-continuation": ("a blank line ends the command there", "no blank lines inside one command"),
    "space-after-backslash": (
        "a space after the backslash ends the command there",
        "the backslash as the last character",
    ),
    "missing-backslash": ("this line ends the command: the next one would be run by itself", "a backslash at its end"),
    "open-quote": ("a quote is opened and never closed", "quotes in pairs"),
}


def check(text: str, release: str = "") -> Report:
    """What is wrong with pasted text, and what to type; refuses only a `release` nobody knows."""
    target = target_named(release)
    if is_model_config(text):
        return Report(target=target, checked=(_file("config.pbtxt", judge_model_config(text, target), target),))
    if text.lstrip().startswith("{"):
        return Report(target=target, checked=(_file("JSON", _judge_json(text), target),))
    checked: list[Checked] = []
    passed_over: list[str] = []
    for line in pasted(text):
        found, unknown = _judge_line(line, target, named=bool(release))
        checked += found
        passed_over += unknown
    if not checked:
        checked = [_nothing_known(text, passed_over, target)]
        passed_over = []
    return Report(target=target, checked=tuple(checked), passed_over=_to_read(passed_over))


def _to_read(programs: list[str]) -> tuple[str, ...]:
    """Each program once, in order, as many as are worth reading."""
    names = [name for name in dict.fromkeys(programs) if PROGRAM_NAME.fullmatch(name)]
    return tuple(names[:FEW])


def _file(where: str, judged: Judged, target: Target) -> Checked:
    return Checked(
        where=where,
        target=target,
        findings=tuple(judged.findings),
        right=tuple(map(masked, judged.right)),
        is_file=True,
    )


def _judge_line(line: Pasted, target: Target, *, named: bool) -> tuple[list[Checked], list[str]]:
    checked: list[Checked] = []
    unknown: list[str] = []
    for words in line.commands:
        call = call_of(words)
        if call is None:
            continue
        judged = _judge(call, target, named=named)
        if judged is None:
            unknown.append(masked(call.program))
            continue
        if not checked:
            judged.findings = _breaks(line) + judged.findings
        judged.right = _with_wrappers(call, judged)
        where = f"line {line.line}: {masked(call.program)}"
        used = _target_of(call, target, named=named)
        checked.append(
            Checked(where=where, target=used, findings=tuple(judged.findings), right=tuple(map(masked, judged.right)))
        )
    return checked, unknown


def _judge(call: Call, target: Target, *, named: bool) -> Judged | None:
    if call.program == "docker":
        return docker.judge_docker(call, target, lambda inner, own: _inner(inner, target if named else own))
    if call.program in JUDGES:
        judged = JUDGES[call.program](call, target)
    elif call.program.startswith("tensorrt_llm.commands."):
        judged = others.judge_module(call, target)
    else:
        return None
    judged.findings = others.judge_ranks(call).findings + judged.findings
    return judged


def _inner(call: Call, target: Target) -> Judged:
    """The command inside a container; one nobody knows comes back as typed."""
    return _judge(call, target, named=True) or Judged(right=[*call.head, *raws(call.args)])


def _target_of(call: Call, target: Target, *, named: bool) -> Target:
    if call.program != "docker" or named:
        return target
    return next((own for word in call.args if (own := target_of_image(word.text))), target)


def _with_wrappers(call: Call, judged: Judged) -> list[str]:
    """`sudo` and the like again before the right command; Docker's RUN and a wrong mpirun do not come back."""
    before = raws(call.before)
    if "RUN" in before and call.program in ENGINE_PROGRAMS:
        judged.add(
            "no-gpu-in-a-build",
            "an image build has no GPU, and an engine built there fits one architecture only",
            seen=f"RUN {call.program}",
            wanted="the build on the GPU that will serve, kept by GPU, TensorRT-LLM and settings",
            attempt=f"docker run --device nvidia.com/gpu=all … {call.program} …",
        )
    before = [word for word in before if word != "RUN"]
    if not judged.right:
        return []
    dropped = {"no-such-module", "ranks-do-not-match"} & {finding.kind for finding in judged.findings}
    return judged.right if dropped else [*before, *judged.right]


def _breaks(line: Pasted) -> list[Finding]:
    judged = Judged()
    for kind, seen in dict.fromkeys(line.breaks):
        problem, wanted = BREAKS[kind]
        judged.add(kind, problem, seen=seen or "(blank)", wanted=wanted, attempt="the command below, in one piece")
    return judged.findings


def _judge_json(text: str) -> Judged:
    """A file of JSON: guides give an `executor_config`, which no server reads."""
    judged = Judged()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        judged.add(
            "unreadable",
            "the text begins like JSON and is none",
            seen=text.strip().split("\n")[0][:60],
            wanted=f"JSON, or one of: {several(KNOWN)}",
            attempt="mend it and check again",
        )
        return judged
    if isinstance(found, dict) and "executor_config" in found:
        judged.add(
            "read-by-nobody",
            "no shipped server reads a JSON `executor_config`",
            seen="executor_config",
            wanted="keys of model.yaml of the llmapi model, or of trtllm-serve --config: YAML, without that level",
            attempt="the same keys in model.yaml",
        )
        inner = found["executor_config"]
        judged.right = _yaml(inner) if isinstance(inner, dict) else []
        return judged
    judged.know(
        "unknown-file",
        "nothing is known about this JSON",
        seen=several(sorted(found)[:5]) if isinstance(found, dict) else "JSON",
        wanted=f"one of: {several(KNOWN)}",
        attempt="paste a command, or a config.pbtxt",
    )
    return judged


def _yaml(values: dict[str, object], indent: str = "", depth: int = 0) -> list[str]:
    lines: list[str] = []
    for key, value in values.items():
        if isinstance(value, dict) and depth < 5:
            lines += [f"{indent}{key}:", *_yaml(value, indent + "  ", depth + 1)]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}")
    return lines


def _why_nothing(text: str, programs: list[str]) -> str:
    if text and len(text.split()) == 1 and ("/" in text or "." in text):
        return f"{text} is no file that is there, and no program that is known"
    return f"nothing is known about {programs[0]}" if programs else "there is no command in this text"


def _nothing_known(text: str, programs: list[str], target: Target) -> Checked:
    judged = Judged()
    first = next((line.strip() for line in text.split("\n") if line.strip()), "")
    judged.add(
        "unknown-program",
        _why_nothing(first, programs),
        seen=programs[0] if programs else masked(first[:80]) or "(nothing)",
        wanted=f"one of: {several(KNOWN)}",
        attempt="enginehouse check 'trtllm-build --checkpoint_dir …'",
    )
    return Checked(where="the text", target=target, findings=tuple(judged.findings))
