"""Splits pasted text and passes each command, or the whole file, to its judge."""

import re
from dataclasses import replace

from deploy.catalog.names import FEW
from deploy.linter import clients, docker, engines, mpi, other_commands, other_servers, server
from deploy.linter.calls import DOCKERFILE, LAUNCHERS, SYNTAX, call_of
from deploy.linter.command_lines import Piece, pieces_of
from deploy.linter.config_files import as_script, cells_of, with_values
from deploy.linter.containers import judge_settings, judge_unreadable
from deploy.linter.copied import plain, typed_as
from deploy.linter.findings import Call, Finding, Judge, Judged, masked, raws
from deploy.linter.images import judge_image, judge_inside
from deploy.linter.json_file import judge_json
from deploy.linter.manifests import is_manifest
from deploy.linter.model_config import is_model_config, judge_model_config
from deploy.linter.other_servers import is_beside_another
from deploy.linter.release import Target, target_named, target_of_image
from deploy.linter.report import Checked, Report
from deploy.linter.shells import SHELLS, calls_in, judge_shell, text_place
from deploy.linter.whole_text import crowded, nothing_known, typographic_signs
from deploy.linter.words import Pasted, too_many, varies, word

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
    "pip": other_commands.judge_pip,
    "pip3": other_commands.judge_pip,
    "git": other_commands.judge_git,
    "sed": other_commands.judge_sed,
    "cp": other_commands.judge_cp,
    "pkill": other_commands.judge_pkill,
    "ENV": other_commands.judge_env,
    "inflight_batcher_llm_client.py": other_commands.judge_batcher_client,
}
OTHER_YAML = re.compile(r"^(?:on|jobs|services|apiVersion|kind|spec|stages):", re.MULTILINE)
"""Keys of compose files, manifests and CI jobs that may begin with `name:`, as a config.pbtxt does."""
PROGRAM_NAME = re.compile(r"[\w./][\w./+-]{0,39}")
SHELL_GROUP = re.compile(r"\s*\{\s+[\w./-]+(\s|$)")
FILLED_LATER = ("trtllm-build", "convert_checkpoint.py", "quantize.py", "tritonserver", "trtllm-serve")
OF_THE_SHELL = (
    *("echo", "printf", "cd", "set", "[", "[[", "test", "true", "for", "case"),
    *("trap", "wait", "shift", "exit"),
)
"""Common programs of scripts, which a report does not list as not judged."""
ENGINE_PROGRAMS = ("trtllm-build", "convert_checkpoint.py", "quantize.py")
KNOWN = ("docker run, login, pull, build", *JUDGES, "a compose file or manifest", "a config.pbtxt")
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


def judged(text: str, release: str = "") -> Report:
    """The report on pasted text: its mistakes, and the corrected text. Raises: a Refusal for an unknown `release`."""
    target = target_named(release)
    if crowd := too_many(text):
        return Report(target=target, checked=(crowded(crowd, target),))
    text = plain((cells_of(text) or (text,))[0])
    text, typographic = typed_as(text), text
    if is_model_config(text) and not OTHER_YAML.search(text):
        return Report(target=target, checked=(_file("config.pbtxt", judge_model_config(text, target), target),))
    is_other_json = re.match(r"\s*\{(?![{%#])", text) and not (SHELL_GROUP.match(text) or is_manifest(text))
    if is_other_json and as_script(text)[0] == text:
        return Report(target=target, checked=(_file("JSON", judge_json(text, KNOWN), target),))
    if broken := judge_unreadable(text):
        return Report(target=target, checked=(_file("the file", broken, target),))
    checked = [_file(*typographic_signs(typographic, text), target)] if typographic != text else []
    passed_over: list[str] = []
    is_for_another = is_beside_another(text)
    text, _settings = as_script(with_values(text))
    for piece in pieces_of(text, target, named=bool(release)):
        if piece.text:
            where = f"line {piece.number}: config.pbtxt"
            checked.append(_file(where, judge_model_config(piece.text, piece.target), piece.target))
        elif piece.container is not None:
            judged_settings = judge_settings(piece.container)
            where = f"line {piece.number}: {piece.container.title}"
            checked += [_file(where, judged_settings, piece.target)] if judged_settings else []
        elif piece.line is None:
            known = _image(piece)
            checked += known
            passed_over += [] if known else [piece.target.image]
        else:
            judged, unknown = _judge_line(piece, piece.line, named=bool(release), is_for_another=is_for_another)
            checked += judged
            passed_over += unknown
    if not checked:
        checked = [nothing_known(text, list(_to_read(passed_over)) or passed_over, target, KNOWN)]
        passed_over = []
    return Report(target=target, checked=tuple(checked), passed_over=_to_read(passed_over))


def _image(piece: Piece) -> list[Checked]:
    """The verdict on the base image of a stage or a container, if it is one of Triton's or TensorRT-LLM's."""
    judged = Judged()
    judge_image(judged, word(piece.target.image))
    wrong = next((finding for finding in judged.findings if finding.is_wrong), None)
    head = "FROM" if piece.instruction == "FROM" else "image:"
    judged.right = [head, wrong.attempt.split()[0] if wrong else piece.target.image]
    if not judged.findings and target_of_image(piece.target.image) is None:
        return []
    where = f"line {piece.number}: {piece.instruction}"
    return [Checked(where=where, target=piece.target, findings=tuple(judged.findings), right=tuple(judged.right))]


def _to_read(programs: list[str]) -> tuple[str, ...]:
    """The names of programs, each once, in order, as many as fit a report."""
    names = [name for name in dict.fromkeys(programs) if PROGRAM_NAME.fullmatch(name) and name not in OF_THE_SHELL]
    return tuple(names[:FEW])


def _file(where: str, judged: Judged, target: Target) -> Checked:
    return Checked(
        where=where,
        target=target,
        findings=tuple(judged.findings),
        right=tuple(map(masked, judged.right)),
        is_file=True,
    )


def _judge_line(piece: Piece, line: Pasted, *, named: bool, is_for_another: bool) -> tuple[list[Checked], list[str]]:
    checked: list[Checked] = []
    unknown: list[str] = []
    for words in line.commands:
        call = call_of(words)
        if call is None:
            continue
        if call.program == "curl" and is_for_another:
            unknown.append("curl")
            continue
        judged = _judge(call, piece.target, named=named) or other_servers.judge_secrets(call)
        if judged is None:
            unknown.append(masked(call.program))
            continue
        if not checked:
            judged.findings = _breaks(line) + judged.findings
        judged.right = _with_wrappers(call, judged, piece.instruction)
        checked.append(
            Checked(
                where=f"line {line.line}: {masked(call.program)}",
                target=_target_of(call, piece.target, named=named),
                findings=tuple(judged.findings),
                right=tuple(map(masked, judged.right)),
            )
        )
    return checked, unknown


def _judge(call: Call, target: Target, *, named: bool) -> Judged | None:
    """The verdict of the program's judge; None for a program without a judge."""
    if call.program in docker.PROGRAMS and not docker.is_of_a_swarm(call):
        return docker.judge_docker(call, target, lambda inner, own: _inner(inner, own, target, named=named))
    if call.program == "kubectl" and any(word.text == "--" for word in call.args):
        return docker.judge_after_dashes(call, target, lambda inner, own: _inner(inner, own, target, named=named))
    if call.program in LAUNCHERS:
        judged = mpi.judge_several(call, target, lambda inner, own: _inner(inner, own, own, named=named))
        return judged if judged.findings or _knows_any(call) else None
    if call.program in SHELLS and text_place(call) is not None:
        judged = judge_shell(call, target, lambda inner, own: _inner(inner, own, own, named=named))
        return judged if judged.findings or _knows_any(call) else None
    if target.is_unread and (call.program in FILLED_LATER or call.program.startswith("tensorrt_llm.")):
        return _of_unread_release(call, target)
    if call.program in JUDGES:
        judged = JUDGES[call.program](call, target)
    elif call.program == "tensorrt_llm.commands.build":
        judged = engines.judge_build(call, target)
    elif call.program.startswith("tensorrt_llm.commands."):
        judged = other_commands.judge_module(call, target)
    else:
        return None
    _unseen(judged, call)
    judge_inside(judged, call, target)
    judged.findings = mpi.judge_ranks(call).findings + judged.findings
    return judged


def _of_unread_release(call: Call, target: Target) -> Judged:
    judged = Judged(right=[*call.head, *raws(call.args)])
    judged.know(
        "program-unread",
        f"the options of {call.program} in {target.in_words} are not judged",
        seen=call.program,
        wanted="a release of the catalog",
        attempt=f"{call.program} --help in that image, or --release with the release to judge for",
    )
    return judged


def _knows_any(call: Call) -> bool:
    return any(inner.program in JUDGES for inner in calls_in(call))


def _unseen(judged: Judged, call: Call) -> None:
    """Adds a note on the words of a command whose values are known only when it runs."""
    unseen = [word.raw for word in call.args if varies(word.raw)]
    if unseen and call.program in FILLED_LATER:
        judged.know(
            "unseen-variable",
            "the values of shell variables are unknown and not judged",
            seen=" ".join(unseen[:FEW]),
            wanted="the command with its variables filled",
            attempt="paste what `set -x` prints when the command runs",
        )


def _inner(call: Call, own: Target, named_one: Target, *, named: bool) -> Judged:
    """The command inside a container or a shell; an unknown command is returned as typed."""
    target = replace(named_one, image=own.image, settings=own.settings) if named else own
    right = [*call.head, *raws(call.args)]
    return _judge(call, target, named=named) or other_servers.judge_secrets(call) or Judged(right=right)


def _target_of(call: Call, target: Target, *, named: bool) -> Target:
    if call.program not in docker.PROGRAMS or named:
        return target
    return next((own for word in call.args if (own := target_of_image(word.text))), target)


def _with_wrappers(call: Call, judged: Judged, instruction: str) -> list[str]:
    """The corrected command with its wrappers, such as `sudo`; the shell's words and a wrong mpirun are left out."""
    before = raws(call.before)
    if (instruction == "RUN" or "RUN" in before) and call.program in ENGINE_PROGRAMS:
        judged.add(
            "no-gpu-in-a-build",
            "an image build has no GPU, and an engine built there fits one architecture only",
            seen=f"RUN {call.program}",
            wanted="the build on the GPU that will serve, kept by GPU, TensorRT-LLM and settings",
            attempt=f"docker run --device nvidia.com/gpu=all … {call.program} …",
        )
    before = [raw for raw in before if raw not in (*SYNTAX, *DOCKERFILE)]
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
