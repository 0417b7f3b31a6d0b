"""Finds the program inside a command: past sudo, variables, mpirun, Docker's RUN, and through python to its script.

What the program is told is left to its judge.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deploy.paste.findings import Call
from deploy.paste.words import Word

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
PYTHON = re.compile(r"python[\d.]*$")
PASSED_OVER = ("sudo", "exec", "time", "nohup", "env", "RUN", "command", "do", "then")
MPIRUN = ("mpirun", "mpiexec")
MPI_VALUES = ("-n", "-np", "--np", "--hostfile", "-hostfile", "-x", "-H", "--host", "--map-by", "--bind-to")


def call_of(words: Sequence[Word]) -> Call | None:
    """The program, its arguments and what stood before it; None for a line that starts no program."""
    start = _first(words)
    if start >= len(words):
        return None
    program = words[start].text
    if PYTHON.search(program):
        return _python(words, start)
    name = program.rpartition("/")[2]
    if name.endswith(".py"):
        return Call(
            program=name,
            script=program,
            head=(words[start].raw,),
            args=tuple(words[start + 1 :]),
            before=tuple(words[:start]),
        )
    return Call(
        program=name, script="", head=(words[start].raw,), args=tuple(words[start + 1 :]), before=tuple(words[:start])
    )


def _first(words: Sequence[Word]) -> int:
    """Where the program stands."""
    place = 0
    while place < len(words):
        text = words[place].text
        if text.rpartition("/")[2] in MPIRUN:
            place = _after_mpirun(words, place + 1)
        elif text in PASSED_OVER or ASSIGNMENT.match(text) or (place and _is_wrapper_option(words, place)):
            place += 1
        else:
            break
    return place


def _is_wrapper_option(words: Sequence[Word], place: int) -> bool:
    return words[place].text in ("-E", "-n") and words[place - 1].text == "sudo"


def _after_mpirun(words: Sequence[Word], place: int) -> int:
    while place < len(words) and words[place].text.startswith("-"):
        place += 2 if words[place].text in MPI_VALUES else 1
    return place


def _python(words: Sequence[Word], start: int) -> Call:
    """`python -u script.py …` is a call of script.py, `python -m module …` one of the module."""
    place = start + 1
    while place < len(words) and words[place].text.startswith("-") and words[place].text not in ("-m", "-c"):
        place += 1
    before = tuple(words[:start])
    if place + 1 < len(words) and words[place].text == "-m":
        head = tuple(word.raw for word in words[start : place + 2])
        module = words[place + 1].text
        return Call(program=module, script=module, head=head, args=tuple(words[place + 2 :]), before=before)
    if place < len(words) and words[place].text != "-c":
        head = tuple(word.raw for word in words[start : place + 1])
        script = words[place].text
        name = script.rpartition("/")[2]
        return Call(program=name, script=script, head=head, args=tuple(words[place + 1 :]), before=before)
    return Call(program="python", script="", head=(words[start].raw,), args=tuple(words[start + 1 :]), before=before)
