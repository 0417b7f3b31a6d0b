"""The encoders in the deployed container beside a Triton without one; then beside the generating LLM.

Both servers have the release's settings and the same clients. During the comparison the LLM is idle, or unloaded if the
card has no room for another set of encoders.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import runs
from benchmarks.cases import Workload
from benchmarks.clients import Clients
from benchmarks.runs import Elsewhere, Runs
from deploy.slices.host import ServerSlice
from rehearsal.real_gpu import card
from rehearsal.real_gpu.generating import Prompts, Shape, generating
from rehearsal.real_gpu.served import Deployed
from roles.triton.defaults import Defaults
from roles.triton.flags import flags
from roles.triton.render import render

ROOT = Path(__file__).parents[2]
STOP_SECONDS = 120
WITHIN_PERCENT = 5
LLM_SECONDS = 3.0
"""Seconds during which the LLM's rate is read while no encoder is asked."""
FILL_SECONDS = 120
FIGURES = {True: "p50_ms", False: "documents_per_second"}
Record = dict[str, Any]


@dataclass(frozen=True)
class Bare:
    """A server without a container: its address, the kernels of its encoders, its seconds until it was ready."""

    server: Elsewhere
    kernels: dict[str, list[str]]
    seconds: float


def encoder_speed(
    deployed: Deployed,
    bare: Callable[[], AbstractContextManager[Bare]],
    workloads: Sequence[Workload],
    crowd: Clients,
    how: Runs,
    usable_mib: int,
    tell: Callable[[Record], None] = lambda _: None,
) -> Record:
    """Measures each case in the container and without one, in turn; `tell` gets intermediate results.

    Passed if no case loses more than WITHIN_PERCENT in the container. The LLM is loaded again afterwards.
    """
    rows: list[Record] = []
    is_room = usable_mib - card.used_mib(deployed.machine) >= needed_mib(deployed.server)
    with deployed.unwatched(), without_llm(deployed, is_room), bare() as bare_server:
        tell({"seconds_to_start_bare": bare_server.seconds})
        rivals = {"bare": bare_server.server, "container": container(deployed)}
        for workload in workloads:
            readings = runs.in_turn(how, workload, rivals, crowd)
            rows.append(
                compared(
                    workload,
                    {name: runs.summary(workload, rows_of) for name, rows_of in readings.items()},
                )
            )
            tell({"cases": list(rows)})
    losses = [row["container_loses_percent"] for row in rows]
    llm = "idle" if is_room else "unloaded"
    passed = max(losses) <= WITHIN_PERCENT
    return {
        "cases": rows,
        "llm_meanwhile": llm,
        "kernels": bare_server.kernels,
        "most_lost": max(losses),
        "passed": passed,
    }


def beside_llm(
    deployed: Deployed,
    workloads: Sequence[Workload],
    crowd: Clients,
    how: Runs,
    prompts: Prompts,
    shape: Shape,
    alone: Mapping[str, Record],
    tell: Callable[[Record], None] = lambda _: None,
) -> Record:
    """Measures each case in the container beside the generating LLM: the loss against `alone`, the LLM's tokens."""
    rows: list[Record] = []
    rival = {"container": container(deployed)}
    with generating(deployed.http, deployed.model("llm"), shape, prompts) as seen:
        seen.wait_until_held(sum(shape.prompts), FILL_SECONDS)
        llm_alone = rate(lambda: seen.tokens, lambda: time.sleep(LLM_SECONDS))
        for workload in workloads:
            tokens, began = seen.tokens, time.monotonic()
            readings = runs.in_turn(how, workload, rival, crowd)["container"]
            llm_beside = (seen.tokens - tokens) / (time.monotonic() - began)
            case, figures = workload.case, runs.summary(workload, readings)
            lost = lost_percent(case.is_latency, alone[case.name], figures)
            figure = FIGURES[case.is_latency]
            row: Record = {"case": case.name, "is_latency": case.is_latency, figure: figures[figure]}
            row |= {"loses_percent": lost, "llm_tokens_per_second": round(llm_beside, 1), "container": figures}
            rows.append(row)
            tell({"beside_llm": list(rows)})
    load = {"sequences": len(shape.prompts), "prompt_tokens": shape.prompts[0], "answer_tokens": shape.answer}
    llm = {"load": load, "tokens_per_second_alone": round(llm_alone, 1), "errors": seen.errors}
    return {"beside_llm": rows, "llm": llm, "passed": not seen.errors}


def rate(count: Callable[[], int], wait: Callable[[], None]) -> float:
    """Returns the growth of `count` a second during `wait`."""
    before, began = count(), time.monotonic()
    wait()
    return (count() - before) / (time.monotonic() - began)


def compared(workload: Workload, sides: Mapping[str, Record]) -> Record:
    """Returns the row of one case: both sides, and the loss in the container."""
    is_latency = workload.case.is_latency
    lost = lost_percent(is_latency, sides["bare"], sides["container"])
    values = {f"{name}_{FIGURES[is_latency]}": side[FIGURES[is_latency]] for name, side in sides.items()}
    return {"case": workload.case.name, "is_latency": is_latency, **values, "container_loses_percent": lost, **sides}


def lost_percent(is_latency: bool, before: Record, after: Record) -> float:
    """Returns percent fewer documents a second in `after`, or more milliseconds at the median; a gain is below 0."""
    figure = FIGURES[is_latency]
    ratio = float(after[figure]) / before[figure]
    return round(100 * (ratio - 1 if is_latency else 1 - ratio), 1)


def needed_mib(server: ServerSlice) -> int:
    """Returns MiB of another set of the planned encoders with its own tritonserver."""
    return server.overhead_mib + sum(model.memory.total_mib for model in server.models if model.kind != "llm")


def container(deployed: Deployed) -> Elsewhere:
    """Returns the deployed server in the clients' form."""
    names = {model.kind: model.name for model in deployed.server.models}
    return Elsewhere(deployed.grpc, deployed.http, names, deployed.cpu_seconds)


@contextmanager
def without_llm(deployed: Deployed, is_room: bool) -> Iterator[None]:
    """Unloads the LLM until the end of the block, unless there is room."""
    with ExitStack() as stack:
        if not is_room:
            model = deployed.model("llm")
            stack.callback(deployed.load, model)
            deployed.unload(model)
        yield


@contextmanager
def bare_server(
    server: ServerSlice, weights: Mapping[str, str], python: Sequence[str], device: str = "cuda:0"
) -> Iterator[Bare]:
    """Runs the planned encoders without a container (bare.py), with `python`, the words before `-m`.

    `weights`: by model name the directory of its checkpoint as that Python sees it.
    """
    from benchmarks.triton import cpu_seconds

    names = {model.kind: model.name for model in server.models if model.name in weights}
    command = [*python, "-m", "rehearsal.real_gpu.bare"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(release(server, weights, device)) + "\n")
            process.stdin.flush()
            first_line = process.stdout.readline()
            assert first_line, f"{' '.join(command)} ended with {process.wait()} before it served"
            started = json.loads(first_line)
            server = Elsewhere(started["grpc"], started["http"], names, lambda: cpu_seconds(started["pid"]))
            yield Bare(server, started["kernels"], started["seconds"])
        finally:
            process.stdin.close()
            process.wait(STOP_SECONDS)


def release(server: ServerSlice, weights: Mapping[str, str], device: str) -> Record:
    """Returns the release's model repository files by path, with other checkpoint paths, and the flags.

    For a CPU (`device`), used in tests, they have no memory cap and use float32.
    """
    models = []
    for model in server.models:
        if model.name in weights:
            settings = model.settings | {"model_path": weights[model.name]}
            if device == "cpu":
                settings |= {"device": "cpu", "dtype": "fp32", "memory_mib": "0"}
            models.append(replace(model, settings=settings))
    files = render(replace(server, models=tuple(models)), Defaults())
    inside = {path.removeprefix("models/"): text.decode() for path, text in files.items() if path.startswith("models/")}
    return {"files": inside, "flags": [*flags(server), *(f"--load-model={model.name}" for model in models)]}
