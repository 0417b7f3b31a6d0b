"""Finds the program inside a command: behind sudo, variables, mpirun, Docker's RUN, and in python's script argument.

Arguments are left to the program's judge, and several programs of one `mpirun` to `deploy.linter.mpi`.
"""

import re
from collections.abc import Sequence

from deploy.linter.findings import Call
from deploy.linter.words import Word

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
PYTHON = re.compile(r"python[\d.]*$")
SYNTAX = (
    *("do", "then", "else", "if", "elif", "while", "until", "!", "{", "}", "fi", "done", "esac", "CMD", "ENTRYPOINT"),
)
KEYWORDS = (*SYNTAX, "exec", "time", "command", "builtin", "export", "local", "declare", "readonly")
"""Words of the shell: a program may follow."""
DOCKERFILE = ("RUN", "CMD", "ENTRYPOINT")
LAUNCHERS = ("mpirun", "mpiexec", "orterun")
MPI_VALUES = ("-n", "-np", "--np", "--hostfile", "-hostfile", "-x", "-H", "--host", "--map-by", "--bind-to")
SRUN_VALUES = (
    *(
        *("-n", "-N", "-p", "-c", "-w", "-x", "-t", "-J", "-A", "-q", "-o", "-e", "-G", "-D", "--mpi"),
        *("--nodes", "--ntasks"),
    ),
    *("--ntasks-per-node", "--cpus-per-task", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gres", "--partition"),
    *("--nodelist", "--exclude", "--time", "--job-name", "--account", "--qos", "--output", "--error", "--jobid"),
    *("--container-image", "--container-mounts", "--container-name", "--container-workdir", "--container-env"),
    *("--export", "--mem", "--cpu-bind", "--gpu-bind", "--chdir", "--signal", "--reservation", "--constraint"),
)
WRAPPERS: dict[str, tuple[tuple[str, ...], int]] = {
    **dict.fromkeys(LAUNCHERS, (MPI_VALUES, 0)),
    "sudo": (("-u", "-g", "-h", "-p", "-C", "-T", "-U"), 0),
    "env": (("-u", "--unset", "-C", "--chdir"), 0),
    "nohup": ((), 0),
    "setsid": ((), 0),
    "timeout": (("-k", "-s", "--kill-after", "--signal"), 1),
    "nice": (("-n", "--adjustment"), 0),
    "ionice": (("-c", "-n"), 0),
    "stdbuf": (("-i", "-o", "-e"), 0),
    "taskset": ((), 1),
    "numactl": (("-m", "-N", "-C", "-i", "-p"), 0),
    "srun": (SRUN_VALUES, 0),
    **dict.fromkeys(("trtllm-llmapi-launch", "tini", "dumb-init", "catchsegv", "unbuffer", "--"), ((), 0)),
}
"""Programs that start another one: their options with a value, and their own words before that program."""


def call_of(words: Sequence[Word]) -> Call | None:
    """The program, its arguments and the words before it; None for a line that starts no program."""
    start = _first(words)
    if start >= len(words):
        return None
    program = words[start].text
    if PYTHON.search(program):
        return _python(words, start)
    name = program.rpartition("/")[2]
    return Call(
        program=name,
        script=program if name.endswith(".py") else "",
        head=(words[start].raw,),
        args=tuple(words[start + 1 :]),
        before=tuple(words[:start]),
    )


def _first(words: Sequence[Word]) -> int:
    """The index of the program among the words."""
    place = 0
    while place < len(words):
        text = words[place].text
        if text.rpartition("/")[2] in LAUNCHERS and any(word.text == ":" for word in words[place:]):
            break
        if text.rpartition("/")[2] in WRAPPERS:
            place = _after_wrapper(words, place)
        elif text in DOCKERFILE:
            place += 1
            while place < len(words) and words[place].text.startswith("--"):
                place += 1
        elif text in KEYWORDS or ASSIGNMENT.match(text):
            place += 1
        else:
            break
    return place


def _after_wrapper(words: Sequence[Word], place: int) -> int:
    """The index at which the wrapped program, or its own wrapper, begins."""
    with_value, own_words = WRAPPERS[words[place].text.rpartition("/")[2]]
    place += 1
    while place < len(words) and words[place].text.startswith("-"):
        place += 2 if words[place].text in with_value else 1
    return place + own_words


def _python(words: Sequence[Word], start: int) -> Call:
    """The call of script.py in `python -u script.py …`, or of the module in `python -m module …`."""
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
