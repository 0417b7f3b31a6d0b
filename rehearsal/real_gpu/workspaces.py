"""Measures MiB of one encoder on a GPU without Triton, at several token budgets, for deploy/models/memory.py.

    python -m rehearsal.real_gpu.workspaces WEIGHTS [--tokens 4096 16384 65536] [--device cuda:0] [--uncapped]

It needs a Python with torch for the card and an otherwise idle card. Each encoder at each budget runs in its own
process, so that readings are separate; this process never uses the card. Each process is capped at its plan, like a
deployed encoder. After each result, prints a JSON line with all results so far.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.catalog.checkpoints import CHECKPOINTS
from deploy.models import memory
from deploy.spec.encoders import Embedder, Reranker
from rehearsal.real_gpu import card
from rehearsal.real_gpu.memory import judged

ROOT = Path(__file__).parents[2]
TOKENS = (4096, 16384, 65536)
MODELS = {"reranker": "bge-reranker-large", "embedder": "nomic-embed-text-v2-moe"}
STREAMS = {"reranker": Reranker.streams, "embedder": Embedder.streams}
ROUNDS = 3
PROCESS_SECONDS = 120
MIB = 2**20
Record = dict[str, Any]


def main(words: list[str] | None = None) -> Record:
    """Returns the record that the last line also prints."""
    options = parser().parse_args(words)
    if not options.measure:
        return workspaces(options.weights, options.tokens, options.device, options.uncapped)
    result: Record = MEASURES[options.measure](options)
    print(json.dumps(result), flush=True)
    return result


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m rehearsal.real_gpu.workspaces", description=__doc__.split("\n")[0])
    made.add_argument(
        "weights", type=Path, help="directory with a checkpoint for each of " + ", ".join(MODELS.values())
    )
    made.add_argument("--tokens", type=int, nargs="+", default=list(TOKENS), help="budgets, each measured by itself")
    made.add_argument("--device", default="cuda:0")
    made.add_argument("--uncapped", action="store_true", help="an encoder may take what it likes")
    made.add_argument("--measure", choices=list(MEASURES), help="what a process of its own is started for")
    made.add_argument("--kind", choices=list(MODELS), help="the encoder to measure")
    return made


def workspaces(weights: Path, tokens: list[int], device: str, uncapped: bool = False) -> Record:
    """Measures a bare context, and each encoder at each budget, beside the plan's formulas.

    Passed if every encoder keeps its budget and its graphs, and its memory meets the plan (memory.judged).
    """
    context = _in_a_process(weights, "context", device)
    rows: list[Record] = []
    results = {
        "bare_context_mib": context["taken_mib"],
        "machine": context["machine"],
        "encoders": rows,
        "passed": True,
    }
    for kind in MODELS:
        for budget in tokens:
            row: Record = {"kind": kind, "max_batch_tokens": budget, "planned": planned(kind, budget)}
            try:
                more = ("--kind", kind, "--tokens", str(budget), *(("--uncapped",) if uncapped else ()))
                row |= _in_a_process(weights, "encoder", device, *more)
                row |= judged(sum(row["planned"].values()), row["after_full_passes"]["taken_mib"])
                kept = row["budget_after_warm_up"] == budget and row["graphs"] > 0
                results["passed"] &= device == "cpu" or (row["within"] and kept)
            except (subprocess.SubprocessError, ValueError, IndexError) as problem:  # the next budget may fit
                row["problem"], results["passed"] = f"{type(problem).__name__}: {problem}", False
            rows.append(row)
            print(json.dumps(results), flush=True)
    return results


def planned(kind: str, budget: int) -> Record:
    """Returns the planned MiB for the published encoder of this kind in float16."""
    shape = CHECKPOINTS[MODELS[kind]].shape
    return {
        "weights_mib": memory.encoder_weights_mib(shape, "float16"),
        "context_mib": memory.ENCODER_CONTEXT_MIB,
        "workspace_mib": memory.encoder_workspace_mib(shape, "float16", budget, STREAMS[kind]),
    }


def _in_a_process(weights: Path, what: str, device: str, *more: str) -> Record:
    """Returns the record that a separate process prints last."""
    command = [sys.executable, "-m", "rehearsal.real_gpu.workspaces", str(weights), "--measure", what]
    ended = subprocess.run(
        [*command, "--device", device, *more],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=PROCESS_SECONDS,
    )
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def bare_context(options: argparse.Namespace) -> Record:
    """Returns MiB of an unused context, by the driver's own library, and the machine's facts."""
    from benchmarks import gpu

    before = _settled(options.device)
    if options.device != "cpu":
        cuda, held = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        for ended in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(held), 0)):
            assert ended == 0, f"CUDA answered {ended}"
    taken = _settled(options.device) - before
    return {"taken_mib": taken, "machine": gpu.machine(options.device)}


def encoder(options: argparse.Namespace) -> Record:
    """Returns MiB of one encoder: used on the card and held by its allocator, once loaded and after full passes."""
    import torch

    sys.path.insert(0, str(ROOT / "files"))
    from encoders import families
    from encoders.device import stand_in
    from encoders.embedding import Embedder as EmbedderBackend
    from encoders.reranking import Reranker as RerankerBackend
    from encoders.settings import Settings

    kind, (budget,) = options.kind, options.tokens
    backend = {"reranker": RerankerBackend, "embedder": EmbedderBackend}[kind]
    dtype = "fp32" if options.device == "cpu" else "fp16"
    plan = planned(kind, budget)
    settings = Settings(
        str(options.weights / MODELS[kind]),
        options.device,
        dtype,
        max_batch_tokens=budget,
        streams=STREAMS[kind],
        memory_mib=0 if options.uncapped else plan["weights_mib"] + plan["workspace_mib"],
    )
    before = _settled(options.device)
    weights = _weights_watched(torch, families, options.device)
    model = backend(settings)
    loaded = _readings(torch, options.device, before)
    full = [stand_in(model.max_tokens, model.runner._family) for _ in range(budget // model.max_tokens)]
    for _ in range(ROUNDS if options.device != "cpu" else 1):
        under_way = [model.runner.launch(full, True) for _ in range(2 * model.runner.streams)]
        for process in under_way:
            process.wait()
    worked = _readings(torch, options.device, before)
    return {
        "kind": kind,
        "max_batch_tokens": budget,
        "streams": STREAMS[kind],
        "budget_after_warm_up": model.budget,
        "graphs": sum(len(lane.offered) for lane in model.runner.lanes),
        "weights_mib": weights[0],
        "loaded": loaded,
        "after_full_passes": worked,
    }


def _weights_watched(torch: Any, families: Any, device: str) -> list[int]:
    """Returns a list that gets, once the network is loaded, its weights' MiB in the allocator; 0 on a CPU."""
    load, taken = families.load, list[int]()

    def watched(*arguments: Any) -> Any:
        network = load(*arguments)
        taken.append(0 if device == "cpu" else torch.cuda.memory_allocated(device) // MIB)
        return network

    families.load = watched
    return taken


def _readings(torch: Any, device: str, before_mib: int) -> Record:
    """Returns MiB of the card that this process uses, its allocator's (now, at most), and the rest outside it."""
    if device == "cpu":
        return dict.fromkeys(("taken_mib", "reserved_mib", "most_reserved_mib", "most_allocated_mib", "outside_mib"), 0)
    torch.cuda.synchronize(device)
    taken, reserved = _settled(device) - before_mib, torch.cuda.memory_reserved(device) // MIB
    return {
        "taken_mib": taken,
        "reserved_mib": reserved,
        "most_reserved_mib": torch.cuda.max_memory_reserved(device) // MIB,
        "most_allocated_mib": torch.cuda.max_memory_allocated(device) // MIB,
        "outside_mib": taken - reserved,
    }


def _settled(device: str) -> int:
    return 0 if device == "cpu" else card.settled_mib(card.Here())


MEASURES = {"context": bare_context, "encoder": encoder}


if __name__ == "__main__":
    main()
