"""Judges the text that a shell runs: `bash -c "…"`, `sh -lc '…'`, inside containers too."""

import shlex

from deploy.linter.calls import LAUNCHERS, call_of
from deploy.linter.findings import Call, Judge, Judged, raws
from deploy.linter.mpi import programs_of
from deploy.linter.release import Target
from deploy.linter.words import Pasted, pasted

SHELLS = ("bash", "sh", "dash", "zsh")


def text_place(call: Call) -> int | None:
    """The index, among a shell's arguments, of the text it runs; None without such a text."""
    for place, word in enumerate(call.args[:-1]):
        if word.text.startswith("-") and not word.text.startswith("--") and "c" in word.text:
            return place + 1
        if not word.text.startswith("-"):
            return None
    return None


def calls_in(call: Call) -> tuple[Call, ...]:
    """The command itself, and the commands that a shell or `mpirun` in it starts."""
    if call.program in LAUNCHERS:
        programs = [program for _, program in programs_of(call) if program]
        return (call, *(nested for program in programs for nested in calls_in(program)))
    place = text_place(call) if call.program in SHELLS else None
    if place is None:
        return (call,)
    lines = pasted(call.args[place].text)
    started = [inner for line in lines for words in line.commands if (inner := call_of(words)) is not None]
    return (call, *(nested for program in started for nested in calls_in(program)))


def judge_shell(call: Call, target: Target, judge: Judge) -> Judged:
    """Every finding about the commands in the text, and the same shell command corrected."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    place = text_place(call)
    if place is None:
        return judged
    text = call.args[place]
    lines = [_right_line(judged, line, target, judge) for line in pasted(text.text)]
    if any(finding.is_wrong for finding in judged.findings):
        inner = "; ".join(lines)
        in_quotes = f'"{inner}"' if text.raw.startswith('"') and '"' not in inner else shlex.quote(inner)
        judged.right = [*call.head, *raws(call.args[:place]), in_quotes, *raws(call.args[place + 1 :])] if inner else []
    return judged


def _right_line(judged: Judged, line: Pasted, target: Target, judge: Judge) -> str:
    right = []
    for words in line.commands:
        call = call_of(words)
        if call is None:
            right.append(" ".join(raws(words)))
            continue
        inner = judged.take(judge(call, target))
        right.append(" ".join([*raws(call.before), *(word for word in inner if word != "\n")]) if inner else "true")
    return "".join(
        f"{command} {operator} " for command, operator in zip(right, (*line.operators, ""), strict=False)
    ).strip()
