"""Judges `mpirun` and `srun`: several programs with `:` between them, and the number of ranks a program needs.

The launch script of the TensorRT-LLM backend starts a program for each rank: `mpirun -n 1 tritonserver … : -n 1
tritonserver … :`. Those are ranks of one server, so that equal ports are no collision.
"""

from collections.abc import Sequence
from dataclasses import replace

from deploy.linter.calls import LAUNCHERS, call_of
from deploy.linter.findings import Call, Judge, Judged, raws
from deploy.linter.options import argparse_options
from deploy.linter.release import Target
from deploy.linter.words import Word

COUNTS = ("-n", "-np", "--np")
SEVERAL_HOSTS = frozenset(
    ["--nnodes", "--dist-init-addr", "--distributed-executor-backend", "--headless", "--hostfile"]
)
"""Options of a server with ranks on several hosts, where one host has fewer GPUs than ranks."""
SIZES = ("--tp_size", "--pp_size", "--cp_size")
OTHER_SIZES = (
    *("--tensor-parallel-size", "-tp", "--tp", "--tp-size", "--pipeline-parallel-size", "-pp", "--num-shard"),
    *("--tensor_parallel_size", "--pipeline_parallel_size"),
)


def programs_of(call: Call) -> list[tuple[tuple[Word, ...], Call | None]]:
    """The words before each program of `mpirun A : B`, and the program."""
    parts: list[list[Word]] = [[]]
    for word in call.args:
        if word.text == ":":
            parts.append([])
        else:
            parts[-1].append(word)
    launcher = Word(call.head[0], call.program)
    return [
        (tuple(part[: len(part) - len(inner.args) - len(inner.head)]) if inner else tuple(part), inner)
        for part in parts
        if part
        for inner in [call_of([launcher, *part])]
    ]


def judge_several(call: Call, target: Target, judge: Judge) -> Judged:
    """Findings about each program of `mpirun A : B`, and the corrected line."""
    judged = Judged()
    programs = programs_of(call)
    parts: list[list[str]] = []
    alone: list[str] = []
    for before, inner in programs:
        words = judged.take(judge(replace(inner, before=()), target)) if inner else []
        if inner and not words:
            return judged
        parts.append([*raws(before), *words])
        alone = alone or words
    ends = [":"] if call.args and call.args[-1].text == ":" else []
    together = [word for part in parts for word in [*part, ":"]][:-1] + ends
    judged.right = [*call.head, *together]
    world = _world_wanted(judged, call, programs)
    if world:
        judged.right = [*call.head, "-n", str(world), *alone]
    return judged


def _world_wanted(judged: Judged, call: Call, programs: list[tuple[tuple[Word, ...], Call | None]]) -> int:
    """The ranks that the programs of `mpirun A : B` need together, if the line starts another number; else 0."""
    count = sum(count_of(before) or 1 for before, _ in programs)
    worlds = {world_of(inner, SIZES) for _, inner in programs if inner} - {0}
    if len(worlds) != 1 or count in worlds:
        return 0
    (world,) = worlds
    judged.add(
        "ranks-do-not-match",
        f"{count} ranks are started and {world} are wanted: the world is TP × PP × CP",
        seen=f"{call.program} with {len(programs)} programs",
        wanted=f"{world} ranks, all programs together",
        attempt=f"-n {world}",
    )
    return world


def judge_ranks(call: Call) -> Judged:
    """Findings about `mpirun -n N …` if the program names its number of ranks."""
    judged = Judged()
    count, world = count_of(_launcher(call)), world_of(call, SIZES)
    if not count or not world or world == count:
        return judged
    options = {option.name: option.value for option in argparse_options(call.args)}
    judged.add(
        "ranks-do-not-match",
        f"{count} ranks are started and {world} are wanted: the world is TP × PP × CP"
        + ("; EP divides TP and adds none" if options.get("--ep_size") else ""),
        seen=f"-n {count} " + " ".join(f"{name} {options[name]}" for name in SIZES if name in options),
        wanted=f"-n {world}",
        attempt=f"-n {world}",
    )
    return judged


def ranks_of(call: Call) -> int:
    """The ranks that a command starts; 0 if the number is not written out."""
    if any(word.text.partition("=")[0] in SEVERAL_HOSTS for word in call.args):
        return 0
    if call.program in LAUNCHERS:
        return sum(count_of(before) or 1 for before, _ in programs_of(call))
    return max(count_of(_launcher(call)), world_of(call, (*SIZES, *OTHER_SIZES)))


def count_of(words: Sequence[Word]) -> int:
    """The number after `-n`; 0 if no number is written out."""
    texts = [word.text for word in words]
    counts = [texts[place + 1] for place, text in enumerate(texts[:-1]) if text in COUNTS]
    return int(counts[0]) if counts and counts[0].isdecimal() and len(counts[0]) < 6 else 0


def world_of(call: Call, sizes: Sequence[str]) -> int:
    """The product of a program's parallel sizes; 0 if it has none, or one that is not a number."""
    values = [option.value for option in argparse_options(call.args) if option.name in sizes]
    if not values or not all(value.isdecimal() and len(value) < 6 for value in values):
        return 0
    world = 1
    for value in values:
        world *= int(value)
    return world


def _launcher(call: Call) -> list[Word]:
    """The words from `mpirun` up to the program."""
    place = next(
        (at for at, word in enumerate(call.before) if word.text.rpartition("/")[2] in LAUNCHERS), len(call.before)
    )
    return list(call.before[place:])
